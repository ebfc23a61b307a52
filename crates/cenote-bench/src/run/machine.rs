//! The machine under a run: what of it the figures hang on.

use serde::{Deserialize, Serialize};
use std::fs::read_to_string;
use std::path::Path;

/// A machine, in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The model that the CPU says it is.
    pub cpu: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Whether it is a virtual machine.
    pub is_virtual: bool,
    /// The first processor's caches, such as `L1d 48 KiB`, and how many processors share one where they do.
    pub caches: Vec<String>,
    /// Of memory, in GiB.
    pub memory_gib: u64,
    /// The kernel's name and release.
    pub kernel: String,
}

impl Machine {
    /// The one this runs on. What it does not say is empty or "unknown".
    pub fn here() -> Self {
        let read = |path: &str| read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let kernel = ["ostype", "osrelease"].map(|name| read(&format!("/proc/sys/kernel/{name}")));
        Self {
            cpu: field(&cpu, "model name").unwrap_or("unknown").to_owned(),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            is_virtual: field(&cpu, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            memory_gib: field(&read("/proc/meminfo"), "MemTotal")
                .and_then(|value| value.trim_end_matches(" kB").parse::<u64>().ok())
                .map_or(0, |kib| kib >> 20),
            kernel: kernel.map(|text| text.trim().to_owned()).join(" "),
        }
    }

    /// All of it in a line.
    pub fn words(&self) -> String {
        format!(
            "{}; {}; {} GiB of memory; {}",
            self.processors(),
            self.caches.join(", "),
            self.memory_gib,
            self.kernel
        )
    }

    /// What a reader needs first.
    pub fn few_words(&self) -> String {
        format!("{}, {}", self.processors(), self.kernel)
    }

    fn processors(&self) -> String {
        let kind = if self.is_virtual {
            "a virtual machine"
        } else {
            "a machine"
        };
        let plural = if self.processors == 1 { "" } else { "s" };
        format!("{kind} with {} processor{plural}, {}", self.processors, self.cpu)
    }
}

/// The first value of a name in lines of `name: value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find_map(|(found, value)| (found.trim() == name).then_some(value.trim()))
}

/// The caches of a processor, from its folder in sysfs.
fn caches(folder: &Path) -> Vec<String> {
    let one = |index: u32| {
        let read = |name: &str| {
            let path = folder.join(format!("index{index}")).join(name);
            Some(read_to_string(path).ok()?.trim().to_owned())
        };
        let letter = match read("type")?.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        let size = read("size")?;
        let size = match size.strip_suffix('K').and_then(|kib| kib.parse::<u64>().ok()) {
            Some(kib) if kib >= 1024 && kib.is_multiple_of(1024) => format!("{} MiB", kib >> 10),
            Some(kib) => format!("{kib} KiB"),
            None => size,
        };
        let sharing = processors(&read("shared_cpu_list").unwrap_or_default());
        let sharing = if sharing > 1 {
            format!(" for {sharing}")
        } else {
            String::new()
        };
        Some(format!("L{}{letter} {size}{sharing}", read("level")?))
    };
    (0..).map_while(one).collect()
}

/// How many there are in a list such as `0-1,4`.
fn processors(list: &str) -> usize {
    let count = |range: &str| match range.split_once('-') {
        Some((from, to)) => Some(to.parse::<usize>().ok()?.checked_sub(from.parse().ok()?)? + 1),
        None => range.parse::<usize>().ok().map(|_| 1),
    };
    list.split(',').filter_map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_words_of_the_first_that_has_them() {
        let text = "model\t\t: 2\nmodel name\t: A CPU\nmodel name\t: Another\n";
        assert_eq!(field(text, "model name"), Some("A CPU"));
        assert_eq!(field(text, "name"), None);
        assert_eq!([processors("0"), processors("0-1,4"), processors("x")], [1, 3, 0]);
    }

    #[test]
    fn caches_say_their_size_and_who_shares_them() {
        let folder = tempfile::tempdir().expect("there is room");
        for (index, level, kind, size, shared) in
            [(0, "1", "Data", "48K", "0"), (1, "3", "Unified", "32768K", "0-1")]
        {
            let cache = folder.path().join(format!("index{index}"));
            std::fs::create_dir(&cache).expect("there is room");
            for (name, text) in [
                ("level", level),
                ("type", kind),
                ("size", size),
                ("shared_cpu_list", shared),
            ] {
                std::fs::write(cache.join(name), format!("{text}\n")).expect("there is room");
            }
        }
        assert_eq!(caches(folder.path()), ["L1d 48 KiB", "L3 32 MiB for 2"]);
        assert!(caches(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn this_machine_says_what_it_is() {
        let here = Machine::here();
        assert!(
            here.processors > 0 && here.kernel.starts_with("Linux "),
            "{here:?}"
        );
    }
}
