//! The native part of the Python package `cenote`.
//!
//! | file | concept |
//! |---|---|
//! | `threads` | what a thread has open: the library's handles belong to threads, Python's objects do not |
//! | `pool` | a pool; what becomes of it when it is closed, and in the child of a fork |
//! | `map`, `ordered`, `pairs` | maps, and iterations over them |
//! | `objects`, `writer`, `view` | the object store; memory that Python writes, and reads, where it is |
//! | `lock`, `group` | locks and groups |
//! | `wait` | waiting, with an eye on signals |
//! | `buffer`, `array` | bytes that Python gives, and what is known of an array's elements |
//! | `error` | the library's errors as exceptions |
//!
//! The classes here are the bases of those in `python/cenote`, which are the ones that people see.
#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

mod array;
mod buffer;
mod error;
mod group;
mod lock;
mod map;
mod objects;
mod ordered;
mod pairs;
mod pool;
mod threads;
mod view;
mod wait;
mod writer;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    error::add(module)?;
    group::add(module)?;
    module.add_class::<pool::Pool>()?;
    module.add_class::<map::Map>()?;
    module.add_class::<ordered::OrderedMap>()?;
    module.add_class::<objects::Objects>()?;
    module.add_class::<writer::Writer>()?;
    module.add_class::<view::View>()?;
    module.add_class::<lock::Lock>()?;
    module.add_class::<lock::RwLock>()?;
    module.add_class::<group::Group>()?;
    module.add_class::<group::Membership>()?;
    module.add_function(wrap_pyfunction!(threads::forked, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
