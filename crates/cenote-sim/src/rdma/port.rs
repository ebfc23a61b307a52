//! The network, as one client has it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use cenote_replica::verbs::{Address, Completion, Request, Verbs};
use cenote_replica::view::{Access, Control, Eras, SessionEnded, View};

use super::world::{Calling, Wait};
use super::{MICROSECOND, MachineId, Shared, Time};

/// Who hands out blocks: a client's number and a size of objects, and where a block is.
pub type Blocks = dyn Fn(u32, u32) -> Option<Address>;

/// A client's place on the network.
#[derive(Clone)]
pub struct Port {
    /// The network.
    pub world: Shared,
    /// Its number.
    pub client: u32,
    /// Its machine.
    pub home: MachineId,
    /// Machines whose cores serve requests for blocks; each request goes to the next one.
    pub servers: Rc<[MachineId]>,
    /// What they answer.
    pub blocks: Rc<Blocks>,
    /// Requests for blocks so far.
    pub asked: Rc<Cell<usize>>,
}

impl Port {
    /// The virtual time.
    pub fn now(&self) -> Time {
        self.world.borrow().now
    }

    /// Sleeps until a time.
    pub async fn sleep_until(&self, until: Time) {
        let wait = self.world.borrow_mut().sleep(until);
        over(&wait).await;
    }

    /// Has a core of a machine do something. The request and the answer have so many bytes.
    ///
    /// Cost: a round trip, a core's time, and the wait for it.
    pub async fn call<T: 'static>(
        &self,
        to: MachineId,
        (request, answer): (usize, usize),
        job: impl FnOnce() -> T + 'static,
    ) -> Option<T> {
        let result = Rc::new(RefCell::new(None));
        let wait = Rc::<Wait>::default();
        let calling = Calling {
            home: self.home,
            to,
            answer,
            job: Box::new({
                let result = Rc::clone(&result);
                move || drop(result.replace(Some(job())))
            }),
            wait: Rc::clone(&wait),
        };
        self.world.borrow_mut().call(request, calling);
        over(&wait).await;
        result.take()
    }

    /// The machine that serves the next request for memory.
    pub fn next_server(&self) -> MachineId {
        let asked = self.asked.replace(self.asked.get() + 1);
        self.servers[(asked + self.client as usize) % self.servers.len()]
    }
}

async fn over(wait: &Wait) {
    poll_fn(|context| match wait.is_over(context.waker()) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

impl Verbs for Port {
    async fn post(&self, batch: Vec<Request>) -> Vec<Completion> {
        let post = self.world.borrow_mut().post(self.home, batch);
        over(&post.wait).await;
        post.completions.take()
    }

    async fn pause(&self, attempt: u32) {
        let until = {
            let mut world = self.world.borrow_mut();
            // To 8 ms, as a shipped client's pauses grow: who loses to a client whose verbs wait behind many others
            // waits, and asks for no closing.
            let most = (2 * MICROSECOND) << attempt.min(12);
            world.now + MICROSECOND + world.draw(most)
        };
        self.sleep_until(until).await;
    }
}

impl Control for Port {
    fn view(&self) -> Rc<View> {
        Rc::clone(&self.world.borrow().view)
    }

    fn eras(&self) -> Eras {
        let world = self.world.borrow();
        let heard = world.heard.get(&self.client);
        heard.copied().unwrap_or(Eras { now: 1, least: 1 })
    }

    fn sessions_ended(&self) -> u64 {
        0
    }

    async fn later(&self, than: u64, region: u16) -> Result<(), SessionEnded> {
        let view = self.view();
        let is_closed = view
            .region(region)
            .is_some_and(|region| region.access == Access::Closed);
        if view.number <= than && !is_closed {
            self.world.borrow_mut().complaints.insert(region);
        }
        poll_fn(|context| {
            let mut world = self.world.borrow_mut();
            if world.ended.contains(&self.client) {
                return Poll::Ready(Err(SessionEnded));
            }
            if world.view.number > than {
                return Poll::Ready(Ok(()));
            }
            world.views.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    async fn block(&self, size: u32) -> Result<Option<Address>, SessionEnded> {
        let (blocks, client) = (Rc::clone(&self.blocks), self.client);
        let block = self
            .call(self.next_server(), (64, 64), move || blocks(client, size))
            .await;
        Ok(block.flatten())
    }
}
