//! What `cargo xtask guests` is asked for.

/// How guests see the file that they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// As the memory of a PCI device.
    Ivshmem,
    /// As a DAX device, on an NVDIMM.
    Dax,
}

impl Memory {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Memory::Ivshmem => "ivshmem",
            Memory::Dax => "dax",
        }
    }

    /// QEMU's device.
    pub fn device(self) -> &'static str {
        match self {
            Memory::Ivshmem => "ivshmem-plain,memdev=shared",
            Memory::Dax => "nvdimm,memdev=shared",
        }
    }
}

/// The options.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// How the guests see what they share; one pod after the other.
    pub memories: Vec<Memory>,
    /// Whether `cenote create` is told `--noncoherent`; one pod after the other.
    pub noncoherent: Vec<bool>,
    /// Whether a pod whose fence lies is run, too.
    pub control: bool,
    /// Measure only how soon one guest is notified of a death in the other.
    pub told: bool,
    /// A JSON object a line instead of tables.
    pub json: bool,
}

impl Plan {
    /// Reads the arguments after `guests`; the error is a sentence for the user.
    pub fn parse(arguments: &[String]) -> Result<Plan, String> {
        let mut plan = Plan {
            memories: vec![Memory::Ivshmem, Memory::Dax],
            noncoherent: vec![false, true],
            control: true,
            told: false,
            json: false,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--json" => plan.json = true,
                "--quick" => {
                    plan.memories.truncate(1);
                    plan.noncoherent.truncate(1);
                }
                "--told" => plan.told = true,
                "--no-control" => plan.control = false,
                "--memory" => {
                    plan.memories = match arguments.next().map(String::as_str) {
                        Some("ivshmem") => vec![Memory::Ivshmem],
                        Some("dax") => vec![Memory::Dax],
                        _ => return Err("`--memory` needs `ivshmem` or `dax`".to_owned()),
                    }
                }
                "--coherent" => plan.noncoherent = vec![false],
                "--noncoherent" => plan.noncoherent = vec![true],
                other => return Err(format!("`guests` knows no argument `{other}`")),
            }
        }
        Ok(plan)
    }

    /// The pods, one after the other.
    pub fn pods(&self) -> impl Iterator<Item = (&Memory, &bool)> {
        let kinds = |memory| self.noncoherent.iter().map(move |kind| (memory, kind));
        self.memories.iter().flat_map(kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Plan, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Plan::parse(&arguments)
    }

    #[test]
    fn all_pods_are_run_unless_somebody_asks_for_some() {
        let all = parse("").unwrap();
        assert_eq!(
            (all.memories.len(), all.noncoherent.len(), all.control),
            (2, 2, true)
        );
        let one = parse("--memory dax --noncoherent --no-control --json").unwrap();
        assert_eq!((one.memories, one.noncoherent), (vec![Memory::Dax], vec![true]));
        assert!(one.json && !one.control);
        let quick = parse("--quick").unwrap();
        assert_eq!(
            (quick.memories, quick.noncoherent),
            (vec![Memory::Ivshmem], vec![false])
        );
        for bad in ["--memory", "--memory hbm", "--quik"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
