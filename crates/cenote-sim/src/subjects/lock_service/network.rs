//! What a network, clocks and a scheduler do to nodes and their directory, drawn by chance.

use super::world::{Fault, LEASE, World};

/// More messages than that are not on their way at once: the network loses one.
const NETWORK_MAX: usize = 64;

/// Draws a number below a bound.
pub type Draw<'d> = &'d mut dyn FnMut(u64) -> u64;

/// How rough a run is; in percent, where nothing else is said.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Messages that are lost.
    pub lost: u64,
    /// Messages that arrive, and stay on their way.
    pub repeated: u64,
    /// How often a node is cut off, or comes back.
    pub apart: u64,
    /// How often the directory is stopped.
    pub stops: u64,
    /// Most microseconds that pass at once.
    pub speed: u64,
}

impl Weather {
    /// In some runs hardly a message is lost, in others many are; in some, time passes slowly.
    pub fn drawn(draw: Draw<'_>) -> Self {
        Self {
            lost: [0, 1, 5, 20][draw(4) as usize],
            repeated: [0, 1, 5, 20][draw(4) as usize],
            apart: [0, 0, 20, 80][draw(4) as usize],
            stops: [0, 10, 50][draw(3) as usize],
            speed: [1, LEASE / 64, LEASE / 8, LEASE][draw(4) as usize],
        }
    }

    /// Nothing is lost any more, nobody is cut off, and time passes slowly.
    pub fn fair() -> Self {
        Self {
            lost: 0,
            repeated: 0,
            apart: 0,
            stops: 0,
            speed: 16,
        }
    }
}

/// Something happens: mostly a message arrives.
pub fn step(world: &mut World, draw: Draw<'_>, weather: &Weather) -> Result<(), Fault> {
    if world.network.len() > NETWORK_MAX {
        world.network.remove(0);
    }
    let places = world.peers.len().max(1) as u64;
    match draw(100) {
        0..65 if !world.network.is_empty() => arrival(world, draw, weather)?,
        65..75 if !world.peers.is_empty() => world.send_again(Some(draw(places) as usize)),
        75..80 => world.send_again(None),
        80..95 => time(world, draw, weather)?,
        95..98 if draw(100) < weather.apart => {
            if let Some(peer) = &mut world.peers[draw(places) as usize] {
                peer.is_apart = !peer.is_apart;
            }
        }
        98 if draw(100) < weather.stops => world.stop_directory(draw(4 * LEASE))?,
        _ => {}
    }
    Ok(())
}

fn arrival(world: &mut World, draw: Draw<'_>, weather: &Weather) -> Result<(), Fault> {
    let at = draw(world.network.len() as u64) as usize;
    if !world.is_reachable(&world.network[at]) {
        // It waits, or is lost.
        if draw(4) == 0 {
            world.network.swap_remove(at);
        }
        return Ok(());
    }
    let is_lost = draw(100) < weather.lost;
    let packet = match draw(100) < weather.repeated {
        true => world.network[at].clone(),
        false => world.network.swap_remove(at),
    };
    match is_lost {
        true => Ok(()),
        false => world.deliver(packet),
    }
}

/// Time passes, and nodes send heartbeats, unless they hang.
fn time(world: &mut World, draw: Draw<'_>, weather: &Weather) -> Result<(), Fault> {
    world.pass(1 + draw(weather.speed))?;
    for n in 0..world.peers.len() {
        if draw(8) > 0 {
            world.send_heartbeat(n);
        }
    }
    Ok(())
}

/// From here on nothing is lost: all messages arrive, and all nodes, and the directory, send again.
pub fn round(world: &mut World) -> Result<(), Fault> {
    for n in 0..world.peers.len() {
        if let Some(peer) = &mut world.peers[n] {
            peer.is_apart = false;
        }
        world.send_heartbeat(n);
        world.send_again(Some(n));
    }
    world.send_again(None);
    let arriving = std::mem::take(&mut world.network);
    arriving
        .into_iter()
        .try_for_each(|packet| world.deliver(packet))?;
    world.pass(LEASE / 100)
}
