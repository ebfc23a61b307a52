//! Each workload three ways: as written down here in the plainest form, alone, and by threads on a pool's task list.
//! All three give the same bytes, whatever a task's share of the input is.

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use cenote::{Backend, Coherent, Noncoherent, Options, Pool};
use cenote_mapreduce::{Error, Joined, Spec, Workload, alone, generate, join, open, undedup};

struct Case {
    folder: tempfile::TempDir,
    input: PathBuf,
}

impl Case {
    fn new(workload: Workload, bytes: u64) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let input = folder.path().join("input");
        let mut content = Vec::new();
        generate(workload, bytes, 7, &mut content).unwrap();
        std::fs::write(&input, content).unwrap();
        Self { folder, input }
    }

    fn spec(&self, workload: Workload, grain: u64) -> Spec {
        Spec {
            grain,
            rounds: 2,
            ..Spec::new(workload, self.input.clone())
        }
    }

    fn alone(&self, spec: &Spec) -> Vec<u8> {
        let mut output = Vec::new();
        alone(&*open(spec).unwrap(), &mut output).unwrap();
        output
    }

    /// By three threads.
    fn pooled<M: Backend>(&self, spec: &Spec) -> Vec<u8> {
        let path = self.folder.path().join("pool");
        let options = Options {
            size: 1 << 20,
            max: 1 << 30,
            ..Options::default()
        };
        let pool: Pool<M> = Pool::create(&path, &options).unwrap();
        let job = open(spec).unwrap();
        let done: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| join(&pool, "job", &*job, 0).unwrap()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(done, job.phases().iter().sum::<u64>());
        let mut output = Vec::new();
        job.finish(&Joined::new(&pool, "job", &*job).unwrap(), &mut output)
            .unwrap();
        let report = pool.fsck().unwrap();
        assert!(report.is_clean(), "{report:#?}");
        drop(pool);
        std::fs::remove_file(path).unwrap();
        output
    }

    /// All forms and grains; the output.
    fn check(&self, workload: Workload, grains: [u64; 2]) -> Vec<u8> {
        let output = self.alone(&self.spec(workload, grains[0]));
        let spec = self.spec(workload, grains[1]);
        assert!(self.alone(&spec) == output, "another grain, another output");
        assert!(self.pooled::<Coherent>(&spec) == output);
        assert!(self.pooled::<Noncoherent>(&spec) == output);
        output
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.input).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.input).unwrap()
    }
}

#[test]
fn words_are_counted() {
    let case = Case::new(Workload::Wordcount, 300_000);
    let mut counts = BTreeMap::<String, u64>::new();
    let is_inside = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii();
    for word in case.text().to_ascii_lowercase().split(|c| !is_inside(c)) {
        if !word.is_empty() {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
    }
    let wanted: String = counts
        .iter()
        .map(|(word, count)| format!("{word} {count}\n"))
        .collect();
    assert!(case.check(Workload::Wordcount, [1 << 20, 7_001]) == wanted.as_bytes());
}

fn words_of(bytes: &[u8]) -> Vec<i64> {
    bytes
        .chunks_exact(4)
        .map(|word| i64::from(i32::from_le_bytes(word.try_into().unwrap())))
        .collect()
}

#[test]
fn points_find_their_centres() {
    let case = Case::new(Workload::Kmeans, 100_000);
    let bytes = case.bytes();
    let width = u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize;
    let all = words_of(&bytes[24..]);
    let points: Vec<&[i64]> = all.chunks(width).collect();
    let spec = Spec::new(Workload::Kmeans, case.input.clone());
    let clusters = spec.clusters as usize;
    let mut centres: Vec<Vec<i64>> = (0..clusters)
        .map(|n| points[n * points.len() / clusters].to_vec())
        .collect();
    let mut counts = vec![0; clusters];
    for _ in 0..spec.iterations {
        let mut of = vec![Vec::new(); clusters];
        for point in &points {
            let distance = |centre: &Vec<i64>| -> i64 {
                centre.iter().zip(*point).map(|(c, x)| (c - x) * (c - x)).sum()
            };
            let nearest = (0..clusters).min_by_key(|n| distance(&centres[*n])).unwrap();
            of[nearest].push(*point);
        }
        for (n, of) in of.iter().enumerate().filter(|(_, of)| !of.is_empty()) {
            for (d, c) in centres[n].iter_mut().enumerate() {
                *c = of
                    .iter()
                    .map(|point| point[d])
                    .sum::<i64>()
                    .div_euclid(of.len() as i64);
            }
        }
        counts = of.iter().map(Vec::len).collect();
    }
    let wanted: String = counts
        .iter()
        .zip(&centres)
        .map(|(count, centre)| {
            let words: Vec<String> = centre.iter().map(i64::to_string).collect();
            format!("{count} {}\n", words.join(" "))
        })
        .collect();
    let output = case.check(Workload::Kmeans, [1 << 20, 301]);
    assert_eq!(String::from_utf8(output).unwrap(), wanted);
}

#[test]
fn matrices_are_multiplied() {
    let case = Case::new(Workload::Matrix, 40_000);
    let bytes = case.bytes();
    let rows = u64::from_le_bytes(bytes[8..16].try_into().unwrap()) as usize;
    let all = words_of(&bytes[16..]);
    let (a, b) = all.split_at(rows * rows);
    let mut wanted = [&b"CENOTEMP"[..], &(rows as u64).to_le_bytes()].concat();
    for i in 0..rows {
        for j in 0..rows {
            let sum: i64 = (0..rows).map(|k| a[i * rows + k] * b[k * rows + j]).sum();
            wanted.extend(sum.to_le_bytes());
        }
    }
    assert!(case.check(Workload::Matrix, [1_000, 3]) == wanted);
}

fn lines(channels: &[(&str, [u64; 256])]) -> String {
    let of = |(name, counts): &(&str, [u64; 256])| -> String {
        let used = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(value, count)| format!("{name} {value} {count}\n"))
            .collect()
    };
    channels.iter().map(of).collect()
}

#[test]
fn colours_are_counted_in_images_and_bytes_in_other_files() {
    let case = Case::new(Workload::Histogram, 200_000);
    let bytes = case.bytes();
    let (width, row) = (1021 * 3, (1021usize * 3).next_multiple_of(4));
    let mut counts = [[0u64; 256]; 3];
    for line in bytes[54..].chunks_exact(row) {
        for (n, byte) in line[..width].iter().enumerate() {
            counts[n % 3][usize::from(*byte)] += 1;
        }
    }
    let [blue, green, red] = counts;
    let wanted = lines(&[("blue", blue), ("green", green), ("red", red)]);
    assert!(case.check(Workload::Histogram, [1 << 20, 9_000]) == wanted.as_bytes());

    // The same pixels as a PPM without what fills rows up, and as bytes of no kind.
    let pixels: Vec<u8> = bytes[54..]
        .chunks_exact(row)
        .flat_map(|line| &line[..width])
        .copied()
        .collect();
    let header = format!("P6\n# pixels\n1021 {}\n255\n", pixels.len() / width);
    std::fs::write(&case.input, [header.as_bytes(), &pixels].concat()).unwrap();
    let wanted = lines(&[("red", blue), ("green", green), ("blue", red)]);
    assert!(case.alone(&case.spec(Workload::Histogram, 5_000)) == wanted.as_bytes());
    std::fs::write(&case.input, &pixels).unwrap();
    let all: [u64; 256] = std::array::from_fn(|n| blue[n] + green[n] + red[n]);
    assert!(case.alone(&case.spec(Workload::Histogram, 777)) == lines(&[("byte", all)]).as_bytes());
}

#[test]
fn options_are_priced() {
    let case = Case::new(Workload::Blackscholes, 60_000);
    let output = case.check(Workload::Blackscholes, [1 << 20, 999]);
    let prices: Vec<f64> = String::from_utf8(output)
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    let text = case.text();
    assert_eq!(prices.len(), text.lines().count());
    for (line, price) in text.lines().zip(prices) {
        let words: Vec<&str> = line.split(' ').collect();
        let numbers: Vec<f64> = words[..5].iter().map(|word| word.parse().unwrap()).collect();
        let [spot, strike, rate, volatility, years] = numbers[..] else {
            panic!("{line}")
        };
        let spread = volatility * f64::sqrt(years);
        let d1 = (f64::ln(spot / strike) + (rate + volatility * volatility / 2.0) * years) / spread;
        let later = strike * f64::exp(-rate * years);
        let call = spot * normal(d1) - later * normal(d1 - spread);
        // A put is a call, less the share, more the price later.
        let wanted = if words[5] == "C" {
            call
        } else {
            call - spot + later
        };
        assert!((price - wanted).abs() < 1e-4, "{line}: {price}, {wanted}");
    }
}

/// The cumulative normal distribution, by Simpson's rule.
fn normal(x: f64) -> f64 {
    let (steps, from) = (2_000, -9.0f64);
    let width = (x.clamp(from, 9.0) - from) / f64::from(steps);
    let density = |x: f64| f64::exp(-x * x / 2.0) / f64::sqrt(2.0 * std::f64::consts::PI);
    let sum: f64 = (0..=steps)
        .map(|n| {
            let weight = match n {
                0 => 1.0,
                n if n == steps => 1.0,
                n if n % 2 == 1 => 4.0,
                _ => 2.0,
            };
            weight * density(from + f64::from(n) * width)
        })
        .sum();
    sum * width / 3.0
}

fn unpacked(archive: &[u8], folder: &Path) -> Result<Vec<u8>, Error> {
    let packed = folder.join("archive");
    std::fs::write(&packed, archive).unwrap();
    let mut output = tempfile::tempfile_in(folder).unwrap();
    undedup(&packed, &output)?;
    let mut unpacked = Vec::new();
    output.rewind().unwrap();
    output.read_to_end(&mut unpacked).unwrap();
    Ok(unpacked)
}

#[test]
fn archives_have_no_content_twice_and_give_it_all_back() {
    let case = Case::new(Workload::Dedup, 3_500_000);
    let archive = case.check(Workload::Dedup, [2, 1]);
    let original = case.bytes();
    assert!(unpacked(&archive, case.folder.path()).unwrap() == original);
    // Twice the same is little more than once.
    std::fs::write(&case.input, [&original[..3 << 20], &original[..3 << 20]].concat()).unwrap();
    let twice = case.alone(&case.spec(Workload::Dedup, 1));
    assert!(
        twice.len() < archive.len() * 5 / 4,
        "{} and {}",
        twice.len(),
        archive.len()
    );
    assert!(unpacked(&twice, case.folder.path()).unwrap() == std::fs::read(&case.input).unwrap());
}

#[test]
fn damaged_archives_are_seen() {
    let case = Case::new(Workload::Dedup, 300_000);
    let archive = case.alone(&case.spec(Workload::Dedup, 1));
    let original = case.bytes();
    for at in (0..archive.len()).step_by(archive.len() / 120) {
        let mut damaged = archive.clone();
        damaged[at] ^= 1 << (at % 8);
        let result = unpacked(&damaged, case.folder.path());
        assert!(
            result.is_err() || result.unwrap() == original,
            "a flipped bit at {at} gives another file"
        );
        assert!(unpacked(&archive[..at], case.folder.path()).is_err());
    }
    let longer = [&archive[..], b"x"].concat();
    assert!(unpacked(&longer, case.folder.path()).is_err());
}

#[test]
fn inputs_that_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    for (workload, content) in [
        (
            Workload::Kmeans,
            &b"CENOTEKM\x01\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"[..],
        ),
        (Workload::Kmeans, b"points"),
        (Workload::Matrix, b"CENOTEMM\x02\0\0\0\0\0\0\0short"),
        (Workload::Histogram, b"BM but nothing else"),
        (Workload::Histogram, b"P6 1000 1000 255\nfew"),
    ] {
        std::fs::write(&input, content).unwrap();
        let spec = Spec::new(workload, input.clone());
        assert!(matches!(open(&spec), Err(Error::Input { .. })), "{workload:?}");
    }
    std::fs::write(&input, "42 40 0.1 0.2 0.5 C\nforty two\n").unwrap();
    let spec = Spec::new(Workload::Blackscholes, input.clone());
    let error = alone(&*open(&spec).unwrap(), &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("at byte 20"), "{error}");
    // Nothing is something for those that count.
    std::fs::write(&input, "").unwrap();
    for workload in [Workload::Wordcount, Workload::Histogram, Workload::Blackscholes] {
        let mut output = Vec::new();
        alone(&*open(&Spec::new(workload, input.clone())).unwrap(), &mut output).unwrap();
        assert!(output.is_empty());
    }
}
