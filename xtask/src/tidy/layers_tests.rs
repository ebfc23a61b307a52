//! Planted faults for the check of layers.

use super::super::planted::{Planted, assert_one};
use super::*;

const LIB: &str = "crates/cenote/src/lib.rs";
const MEMORY: &str = "crates/cenote/src/memory/mod.rs";
const POD: &str = "crates/cenote/src/pod/mod.rs";
const INDEX: &str = "crates/cenote/src/index/hash.rs";

#[test]
fn lower_layers_helpers_and_foreign_crates_are_fine() {
    let planted = Planted::new(
        "layers-good",
        &[
            (
                LIB,
                "pub mod memory;\npub use error::Error;\npub use store::Map;\nfn f() { crate::store::g() }\n",
            ),
            ("crates/cenote/src/error.rs", "use crate::memory::Offset;\n"),
            (
                MEMORY,
                "use crate::error::Error;\nuse crate::memory::word;\nuse super::error;\nuse std::sync::atomic::AtomicU64;\n",
            ),
            (
                INDEX,
                "use crate::{memory::Word, pod, sync::{self, Lock}, Error};\nuse super::x;\nuse other::store::Y;\n",
            ),
            (
                "crates/cenote/src/store/mod.rs",
                "//! crate::above\nuse crate::index;\n// crate::sync is below\n",
            ),
            (
                "crates/cenote-cli/src/main.rs",
                "use std::sync::atomic::AtomicU64;\nuse crate::store::X;\n",
            ),
        ],
    );
    assert_eq!(planted.errors(check), Vec::<String>::new());
    assert_eq!(files(&planted.tree()).count(), 3);
}

#[test]
fn a_use_of_a_higher_layer_is_found() {
    let planted = Planted::new("layers-up", &[(MEMORY, "//! x\n\nuse crate::store::Map;\n")]);
    assert_one(
        &planted.errors(check),
        "crates/cenote/src/memory/mod.rs:3: ",
        "the layer `store`",
    );
}

#[test]
fn every_spelling_of_a_higher_layer_is_found() {
    let spellings = [
        "fn f() { let x = crate::store::open(); }",
        "use crate::{\n    memory,\n    store::Map,\n};",
        "use crate::{memory::{a, b}, store as below};",
        "use super::store::Map;",
        "mod tests { use super::super::store::Map; }",
        "mod tests { fn f() { super::super::store::g() } }",
        "use cenote::store;",
        "macro_rules! m { () => { $crate::store::x() } }",
        "fn f(x: impl Fn(&crate :: store :: Map)) {}",
    ];
    for (index, spelling) in spellings.iter().enumerate() {
        let planted = Planted::new(&format!("layers-spelling-{index}"), &[(POD, spelling)]);
        let errors = planted.errors(check);
        assert_eq!(errors.len(), 1, "{spelling}: {errors:?}");
        assert!(errors[0].contains("the layer `store`"), "{errors:?}");
    }
}

#[test]
fn a_layer_may_be_a_single_file_and_super_is_counted_from_it() {
    let planted = Planted::new(
        "layers-file",
        &[
            (
                "crates/cenote/src/pod.rs",
                "use super::memory;\nuse super::index;\n",
            ),
            (
                "crates/cenote/src/pod/group.rs",
                "use super::index;\nuse super::super::index;\n",
            ),
        ],
    );
    let errors = planted.errors(check);
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(
        errors[0].starts_with("crates/cenote/src/pod.rs:2: "),
        "{errors:?}"
    );
    assert!(
        errors[1].starts_with("crates/cenote/src/pod/group.rs:2: "),
        "{errors:?}"
    );
}

#[test]
fn nothing_reaches_up_through_a_helper_or_a_re_export() {
    let planted = Planted::new(
        "layers-launder",
        &[
            (
                LIB,
                "pub use crate::store::{Map as StoreMap, Set};\npub use helper::Help;\n",
            ),
            ("crates/cenote/src/helper.rs", "use crate::other::f;\n"),
            (
                "crates/cenote/src/other.rs",
                "use crate::helper::g;\nuse crate::index::Table;\n",
            ),
            (
                POD,
                "use crate::helper::f;\nuse crate::StoreMap;\nuse crate::Help;\nuse crate::Unknown;\n",
            ),
            (INDEX, "use crate::helper::f;\n"),
        ],
    );
    let errors = planted.errors(check);
    assert_eq!(errors.len(), 3, "{errors:#?}");
    assert!(errors[0].contains("pod/mod.rs:1: ") && errors[0].contains("`index`, reached through `helper`"));
    assert!(
        errors[1].contains("pod/mod.rs:2: ") && errors[1].contains("`store`, reached through `StoreMap`")
    );
    assert!(errors[2].contains("pod/mod.rs:3: ") && errors[2].contains("`index`, reached through `Help`"));
}

#[test]
fn a_folder_that_no_layer_is_named_after_is_found() {
    let files = [
        ("crates/cenote/src/util/mod.rs", "\n"),
        ("crates/cenote/src/util/a.rs", "\n"),
    ];
    let planted = Planted::new("layers-folder", &files);
    assert_one(
        &planted.errors(check),
        "crates/cenote/src/util/a.rs:1: ",
        "the folder `util`",
    );
}

#[test]
fn hardware_outside_the_memory_layer_is_found() {
    let spellings = [
        "use std::sync::atomic::Ordering;",
        "use core::sync::atomic;",
        "use std::{sync::{Arc, atomic::AtomicBool}};",
        "fn f(x: &AtomicU64) {}",
        "use portable_atomic::*;",
        "use std::arch::x86_64::_mm_sfence;",
        "use core::{arch, mem};",
        "fn f() { asm!(\"nop\") }",
        "fn f() { rustix::mm::mmap() }",
        "use memmap2::MmapMut as Bytes;",
        "fn f() { libc::munmap() }",
    ];
    for (index, spelling) in spellings.iter().enumerate() {
        let planted = Planted::new(&format!("layers-hardware-{index}"), &[(INDEX, spelling)]);
        let errors = planted.errors(check);
        assert_eq!(errors.len(), 1, "{spelling}: {errors:?}");
        assert!(errors[0].contains("outside the memory layer"), "{errors:?}");
    }
}

#[test]
fn hardware_is_free_in_the_memory_layer_in_tests_and_in_words() {
    let code = "use std::sync::atomic::AtomicU64;\nuse core::arch::asm;\nuse memmap2::Mmap;\n";
    let planted = Planted::new(
        "layers-hardware-good",
        &[
            (MEMORY, code),
            ("crates/cenote/src/index/hash_tests.rs", code),
            ("crates/cenote/src/index/tests.rs", code),
            ("crates/cenote/tests/kill.rs", code),
            (
                INDEX,
                "// std::sync::atomic and mmap\nconst A: &str = \"std::sync::atomic::AtomicU64 mmap\";\nuse std::sync::Mutex;\n",
            ),
        ],
    );
    assert_eq!(planted.errors(check), Vec::<String>::new());
    let planted = Planted::new(
        "layers-hardware-examples",
        &[("crates/cenote/benches/map.rs", code)],
    );
    assert!(!planted.errors(check).is_empty());
}
