//! Futures in one thread, which go on when the virtual time has come.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use super::Shared;

/// Tasks that can go on.
type Ready = Arc<Mutex<VecDeque<usize>>>;

struct Alarm {
    task: usize,
    ready: Ready,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.push_back(self.task);
    }
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Tasks on a network.
#[derive(Default)]
pub struct Tasks {
    tasks: Vec<(Option<Task>, Option<Waker>)>,
    ready: Ready,
    living: usize,
}

impl Tasks {
    /// Adds a task.
    pub fn spawn(&mut self, task: impl Future<Output = ()> + 'static) {
        let number = self.tasks.len();
        let alarm = Arc::new(Alarm {
            task: number,
            ready: Arc::clone(&self.ready),
        });
        alarm.clone().wake();
        self.tasks.push((Some(Box::pin(task)), Some(Waker::from(alarm))));
        self.living += 1;
    }

    /// Runs until all tasks have ended. `false` if some wait for what never comes.
    #[must_use]
    pub fn run(&mut self, world: &Shared) -> bool {
        while self.living > 0 {
            let next = {
                let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
                ready.pop_front()
            };
            match next {
                Some(number) => self.poll(number),
                None if !world.borrow_mut().step() => return false,
                None => {}
            }
        }
        self.tasks.clear();
        true
    }

    fn poll(&mut self, number: usize) {
        let Some((slot, Some(waker))) = self.tasks.get_mut(number) else {
            return;
        };
        let Some(task) = slot else { return };
        if task.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
            *slot = None;
            self.living -= 1;
        }
    }
}
