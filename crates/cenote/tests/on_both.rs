//! Tests that take the kind of memory.

/// Has each of them run on coherent and on incoherent memory. One that is not listed is dead code.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod coherent {
            $(#[test] fn $name() { super::$name::<cenote::Coherent>(); })*
        }
        mod noncoherent {
            $(#[test] fn $name() { super::$name::<cenote::Noncoherent>(); })*
        }
    };
}
