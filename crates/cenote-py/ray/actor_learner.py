"""Actors play an Atari game and hand batches of frames to a learner, through Cenote or through Ray's object store.

    pip install '.[ray]' ale-py
    python crates/cenote-py/ray/actor_learner.py [--transport cenote|ray] [--actors 2] [--seconds 10] [--game breakout]

Each actor steps an environment of its own by the newest weights that it has, and returns a batch. With Cenote it fills
the batch's frames where they are, in the pool, and returns a handle; the learner reads them there, and takes them. With
Ray it returns an array. The learner's policy is linear, and learns by policy gradients (REINFORCE) on coarse grey
pictures: enough to use every batch, not to play well.

It prints frames a second, and how long a batch takes from the actor's last frame until the learner has the arrays.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from typing import Any

import ale_py
import ale_py.roms
import numpy
import ray

import cenote.ray

# Emulated frames for each that is kept, in which the action is repeated.
FRAME_SKIP = 4
GAMMA, RATE = 0.99, 1e-3


def features(frames: numpy.ndarray) -> numpy.ndarray:
    """Coarse grey pictures, as rows."""
    coarse = frames[:, ::5, ::5].mean(axis=-1, dtype=numpy.float32) / 255 - 0.5
    return coarse.reshape(len(frames), -1)


def policy(weights: numpy.ndarray, rows: numpy.ndarray) -> numpy.ndarray:
    """The probability of each action, for each row."""
    logits = rows @ weights
    odds = numpy.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


@ray.remote(num_cpus=0)
class Actor:
    """An environment, and what plays in it."""

    def __init__(self, game: str, seed: int, store: cenote.ray.Store | None) -> None:
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        self.ale.setInt("random_seed", seed)
        self.ale.loadROM(ale_py.roms.get_rom_path(game))
        self.actions = self.ale.getMinimalActionSet()
        self.chance = numpy.random.default_rng(seed)
        self.store = store

    def shape(self) -> tuple[tuple[int, int, int], int]:
        """Of a frame; and how many actions there are."""
        return (*self.ale.getScreenDims(), 3), len(self.actions)

    def batch(self, weights: Any, count: int) -> dict[str, Any]:
        """Plays for so many frames."""
        shape = (count, *self.ale.getScreenDims(), 3)
        if self.store is None:
            frames = numpy.empty(shape, "u1")
            return self.play(weights, frames) | {"frames": frames}
        writer, handle = self.store.create_array(shape, "u1")
        with writer:
            played = self.play(weights.get(), writer.array())
        return played | {"frames": handle}

    def play(self, weights: numpy.ndarray, frames: numpy.ndarray) -> dict[str, Any]:
        taken, rewards, ends = numpy.zeros(len(frames), "i4"), numpy.zeros(len(frames)), numpy.zeros(len(frames), "?")
        for n in range(len(frames)):
            self.ale.getScreenRGB(frames[n])
            (chances,) = policy(weights, features(frames[n : n + 1]))
            taken[n] = self.chance.choice(len(chances), p=chances / chances.sum())
            for _ in range(FRAME_SKIP):
                rewards[n] += self.ale.act(self.actions[taken[n]])
            if self.ale.game_over():
                ends[n] = True
                self.ale.reset_game()
        return {"actions": taken, "rewards": rewards, "ends": ends, "ended": time.monotonic()}


@ray.remote(num_cpus=0)
class Learner:
    """The weights."""

    def __init__(self, shape: tuple[int, ...], actions: int, store: cenote.ray.Store | None) -> None:
        rows = features(numpy.zeros((1, *shape), "u1"))
        self.weights = numpy.zeros((rows.shape[1], actions), "f4")
        self.store = store
        self.published: list[cenote.ray.ObjectHandle] = []

    def publish(self) -> Any:
        """The weights as actors get them. Actors may still use some that are older."""
        if self.store is None:
            return self.weights
        self.published.append(self.store.put(self.weights))
        if len(self.published) > 16:
            self.published.pop(0).free()
        return self.published[-1]

    def learn(self, batch: dict[str, Any]) -> tuple[Any, dict[str, float]]:
        """Learns from a batch; returns the new weights."""
        frames = batch["frames"] if self.store is None else batch["frames"].take()
        handed_over = time.monotonic() - batch["ended"]
        rewards, ends = batch["rewards"], batch["ends"]
        gains, gain = numpy.zeros(len(rewards)), 0.0
        for n in reversed(range(len(rewards))):
            gain = gains[n] = rewards[n] + GAMMA * gain * (not ends[n])
        gains = (gains - gains.mean()) / (gains.std() + 1e-6)
        rows = features(frames)
        error = -policy(self.weights, rows)
        error[numpy.arange(len(rows)), batch["actions"]] += 1
        self.weights = self.weights + RATE * (rows.T @ (error * gains[:, None])).astype("f4") / len(rows)
        return self.publish(), {"handed_over": handed_over, "reward": float(rewards.sum()), "bytes": frames.nbytes}


def run(asked: argparse.Namespace, store: cenote.ray.Store | None) -> dict[str, Any]:
    actors = [Actor.remote(asked.game, seed, store) for seed in range(1, asked.actors + 1)]
    shape, actions = ray.get(actors[0].shape.remote())
    learner = Learner.remote(shape, actions, store)
    weights = ray.get(learner.publish.remote())
    playing = {actor.batch.remote(weights, asked.batch): actor for actor in actors}
    said: list[dict[str, float]] = []
    began = time.monotonic()
    while time.monotonic() < began + asked.seconds:
        (batch,), _ = ray.wait(list(playing))
        actor = playing.pop(batch)
        # The learner gets the batch itself; the driver sees weights and figures.
        weights, figures = ray.get(learner.learn.remote(batch))
        said.append(figures)
        playing[actor.batch.remote(weights, asked.batch)] = actor
    took = time.monotonic() - began
    ray.wait(list(playing), num_returns=len(playing))
    return {
        "transport": asked.transport,
        "actors": asked.actors,
        "batches": len(said),
        "frames_per_second": len(said) * asked.batch / took,
        "mb_per_second": sum(each["bytes"] for each in said) / took / 1e6,
        "handed_over_ms": statistics.median(each["handed_over"] for each in said) * 1000,
        "reward_per_batch": statistics.mean(each["reward"] for each in said),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--transport", choices=("cenote", "ray"), default="cenote")
    options.add_argument("--actors", type=int, default=2)
    options.add_argument("--batch", type=int, default=128, help="frames of a batch")
    options.add_argument("--seconds", type=float, default=10)
    options.add_argument("--game", default="breakout")
    options.add_argument("--json", action="store_true")
    asked = options.parse_args()
    # A Ray of its own.
    ray.init(address="local", include_dashboard=False, object_store_memory=1 << 30, log_to_driver=False)
    try:
        if asked.transport == "ray":
            found = run(asked, None)
        else:
            with tempfile.TemporaryDirectory(prefix="cenote-actor-learner-", dir="/dev/shm") as folder:
                with cenote.ray.Store(f"{folder}/pool", size="512MiB", max="4GiB") as store:
                    found = run(asked, store)
    finally:
        ray.shutdown()
    if asked.json:
        print(json.dumps(found))
    else:
        print(
            "{transport}: {frames_per_second:.0f} frames/s of {actors} actors, {mb_per_second:.0f} MB/s, "
            "{handed_over_ms:.1f} ms from the last frame to the learner, {batches} batches, "
            "reward {reward_per_batch:.2f} a batch".format(**found)
        )


if __name__ == "__main__":
    main()
