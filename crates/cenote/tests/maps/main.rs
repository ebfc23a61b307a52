//! The conformance suite: the same tests for all maps, on both backends, under all guidelines that make a difference to
//! them.
//!
//! | file | which maps | what |
//! |---|---|---|
//! | `bytes.rs` | the store's maps | byte strings: each call, against a model, growth, threads, large values |
//! | `words.rs` | all that implement `WordMap`, with the feature `baselines` | keys and values of 8 bytes |
//! | `order.rs`, `shrinks.rs` | the store's ordered maps | order, and nodes that are split and merged |
//! | `model.rs` | the store's maps | random calls against a model; failing lists of calls are shrunk |
//! | `planted.rs` | maps with a fault | each fault is found |
//!
//! A case is a function, generic over the backend and the map. To add a map, implement [`subject::TestMap`] or
//! `cenote::index::baseline::WordMap` for it and give it a line in the lists below. The lists also say which sets of
//! guidelines make a difference to it. Exchanges by a server are slow, and the same for all: only the store's maps run
//! on them.

// Has the library compiled for both memories (`cenote_damage::ALL_CALLS`).
extern crate cenote_damage as _;

mod bytes;
mod common;
mod model;
mod order;
mod planted;
mod shrinks;
mod subject;
#[cfg(feature = "baselines")]
mod words;

/// A test of each case, for each map of a list, each backend, and each set of guidelines that the list gives the map.
macro_rules! everywhere {
    ($cases:tt of $home:ident for $($name:ident: $($map:ident)::+ on coherent [$($coherent:ident),+], noncoherent [$($noncoherent:ident),+], delegated [$($delegated:ident),*];)+) => {
        $(mod $name {
            type Subject<M> = $($map)::+<M>;
            mod coherent {
                use super::Subject;
                $(mod $coherent { crate::tests!($cases of $home, cenote::Coherent, $coherent); })+
            }
            mod noncoherent {
                use super::Subject;
                $(mod $noncoherent { crate::tests!($cases of $home, cenote::Noncoherent, $noncoherent); })+
            }
            #[allow(unused_imports)] // Where the list is empty.
            mod delegated {
                use super::Subject;
                $(mod $delegated { crate::tests!($cases of $home, cenote::Delegated, $delegated); })*
            }
        })+
    };
}

macro_rules! tests {
    ([$($case:ident),+ $(,)?] of $home:ident, $backend:ty, $guidelines:ident) => {
        use super::Subject;
        $(#[test]
        fn $case() {
            crate::$home::$case::<$backend, Subject<$backend>>(crate::common::$guidelines());
        })+
    };
}
use tests;

mod every_map_of_byte_strings {
    everywhere!(
        [
            one_key,
            one_kind_a_name,
            behaves_like_a_btree_map,
            grows_and_keeps_everything,
            threads_agree,
            large_values_and_keys,
        ] of bytes for
        hash: cenote::Map on coherent [p3, sp, in_place], noncoherent [p3, replicated, sp, in_place], delegated [p3];
        ordered: cenote::Ordered on coherent [p3, sp], noncoherent [p3, replicated, sp], delegated [p3];
    );
}

mod every_ordered_map {
    everywhere!(
        [
            neighbours_of_one_key,
            keys_that_begin_alike,
            many_at_once,
            ascending_keys_fill_leaves,
            scattered_keys_make_levels,
        ] of order for
        ordered: cenote::Ordered on coherent [p3, sp], noncoherent [p3, replicated, sp], delegated [p3];
    );
}

mod every_map_that_shrinks {
    everywhere!(
        [shrinks_and_grows_again, threads_shrink] of shrinks for
        ordered: cenote::Ordered on coherent [p3, sp], noncoherent [p3, replicated, sp], delegated [p3];
    );
}

mod every_map_against_a_model {
    everywhere!(
        [follows_the_model] of model for
        hash: cenote::Map on coherent [p3, in_place], noncoherent [p3, in_place], delegated [p3];
        ordered: cenote::Ordered on coherent [p3], noncoherent [p3], delegated [p3];
    );
}

#[cfg(feature = "baselines")]
mod every_map_of_words {
    everywhere!(
        [
            one_word,
            words_at_the_ends,
            words_like_a_btree_map,
            words_grow_and_stay,
            words_are_there_for_others,
            threads_agree_on_words,
            one_thread_wins,
        ] of words for
        hash: cenote::index::hash::HashMap on coherent [p3, sp, in_place], noncoherent [p3, replicated, sp, in_place], delegated [p3];
        ordered: cenote::index::ordered::OrderedMap on coherent [p3, sp], noncoherent [p3, replicated, sp], delegated [p3];
        btree: cenote::index::baseline::btree::BTree on coherent [sp], noncoherent [sp], delegated [];
        clht: cenote::index::baseline::clht::Clht on coherent [sp], noncoherent [sp], delegated [];
        art: cenote::index::baseline::art::Art on coherent [sp], noncoherent [sp], delegated [];
        masstree: cenote::index::baseline::masstree::Masstree on coherent [sp], noncoherent [sp], delegated [];
        hot: cenote::index::baseline::hot::Hot on coherent [sp], noncoherent [sp], delegated [];
        sherman: cenote::index::baseline::sherman::Sherman on coherent [sp], noncoherent [sp], delegated [];
    );
}
