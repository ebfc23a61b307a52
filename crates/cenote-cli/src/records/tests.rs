//! Tests of the formats: round trips of any bytes, columns, and what is refused.

use super::*;

fn all(format: Format, columns: &Columns, raw: bool, text: &[u8]) -> Vec<Result<Pair, (u64, String)>> {
    let mut source = read(format, columns, raw, Box::new(text)).unwrap();
    let mut found = Vec::new();
    loop {
        let mut pair = Pair::default();
        match source.next(&mut pair).unwrap() {
            Next::Pair => found.push(Ok(pair)),
            Next::Bad { line, why } => found.push(Err((line, why))),
            Next::End => return found,
        }
    }
}

fn pairs(format: Format, columns: &Columns, text: &str) -> Vec<(String, String)> {
    let text_of = |bytes| String::from_utf8(bytes).unwrap();
    let found = all(format, columns, false, text.as_bytes());
    found
        .into_iter()
        .map(Result::unwrap)
        .map(|pair| (text_of(pair.key), text_of(pair.value)))
        .collect()
}

fn columns(key: &str, value: &[&str]) -> Columns {
    let value = value.iter().map(|column| (*column).to_owned()).collect();
    Columns {
        key: Some(key.to_owned()),
        value,
        header: false,
    }
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[test]
fn what_is_written_is_read() {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let odd: [&[u8]; 14] = [
        b"\xef\xbb\xbfbom",
        b"",
        b"plain",
        b" spaces ",
        b"tab\there",
        b"line\r\nend\r",
        b"\"quoted\",\"",
        b"a,b",
        b"\\n\\x41\\",
        b"\xff\xfe",
        "Köln".as_bytes(),
        b"12.5",
        &all_bytes,
        b"{\"key\":1}",
    ];
    for format in [Format::Tsv, Format::Csv, Format::Jsonl] {
        let mut sink = Sink::new(format, Vec::new());
        let mut written = Vec::new();
        for key in odd {
            for value in odd {
                sink.write(key, value).unwrap();
                written.push(Ok(Pair {
                    key: key.to_vec(),
                    value: value.to_vec(),
                }));
            }
        }
        let text = sink.finish().unwrap();
        assert_eq!(
            all(format, &Columns::default(), false, &text),
            written,
            "{format:?}"
        );
    }
}

#[test]
fn tsv_columns() {
    let text = "a\tb\tc\r\n\nd\te\tf\\tg";
    let first = [pair("a", "b\tc"), pair("d", "e\tf\tg")];
    assert_eq!(pairs(Format::Tsv, &Columns::default(), text), first);
    assert_eq!(
        pairs(Format::Tsv, &columns("2", &["3", "1"]), text),
        [pair("b", "c\ta"), pair("e", "f\tg\td")]
    );
    assert_eq!(
        pairs(Format::Tsv, &columns("b", &["c"]), text),
        [pair("e", "f\tg")]
    );
    assert_eq!(
        pairs(Format::Tsv, &Columns::default(), "word\n"),
        [pair("word", "")]
    );
    let raw = all(Format::Tsv, &Columns::default(), true, b"a\tC:\\new");
    assert_eq!(
        raw,
        [Ok(Pair {
            key: b"a".to_vec(),
            value: b"C:\\new".to_vec()
        })]
    );
}

#[test]
fn csv_columns() {
    let text = "id,name,note\n1,\"Paris, France\",\"say \"\"hi\"\"\"\n";
    let header = Columns {
        header: true,
        ..Columns::default()
    };
    assert_eq!(
        pairs(Format::Csv, &header, text),
        [pair("1", "\"Paris, France\",\"say \"\"hi\"\"\"")]
    );
    assert_eq!(
        pairs(Format::Csv, &columns("name", &["note"]), text),
        [pair("Paris, France", "say \"hi\"")]
    );
}

#[test]
fn json_fields() {
    let text = r#"{"id": 7, "name": "Köln", "pop": 1.10, "tags": [1, 2]}"#;
    let rest = r#"{"name":"Köln","pop":1.10,"tags":[1, 2]}"#;
    assert_eq!(pairs(Format::Jsonl, &columns("id", &[]), text), [pair("7", rest)]);
    assert_eq!(
        pairs(Format::Jsonl, &columns("name", &["pop"]), text),
        [pair("Köln", "1.10")]
    );
    assert_eq!(
        pairs(Format::Jsonl, &columns("id", &["tags", "name"]), text),
        [pair("7", r#"{"tags":[1, 2],"name":"Köln"}"#)]
    );
}

#[test]
fn bad_records_are_told_and_passed() {
    let bad = |format, columns: &Columns, text: &str| {
        let found = all(format, columns, false, text.as_bytes());
        let Err((line, why)) = &found[1] else {
            panic!("{found:?}")
        };
        assert_eq!((found.len(), *line), (3, 2), "{found:?}");
        assert!(found[0].is_ok() && found[2].is_ok(), "{found:?}");
        why.clone()
    };
    let second = columns("2", &[]);
    assert!(bad(Format::Tsv, &second, "a\tb\nc\nd\te").contains("it has 1 column, the key is column 2"));
    assert!(bad(Format::Tsv, &second, "a\tb\nc\td\\q\nd\te").contains("not an escape"));
    assert!(bad(Format::Csv, &second, "a,b\nc\nd,e").contains("it has 1 column"));
    let key = Columns::default();
    let good = r#"{"key":"a","value":"b"}"#;
    for line in [
        "{",
        "5",
        "[1]",
        "{\"value\":1}",
        "{\"key_hex\":\"0\",\"value\":1}",
        "{\"key\":\"\\ud800\"}",
        "\u{1}",
    ] {
        bad(Format::Jsonl, &key, &format!("{good}\n{line}\n{good}"));
    }
}

#[test]
fn lines_are_counted_whatever_was_left_out() {
    let second = columns("2", &[]);
    for (format, text, wanted) in [
        (Format::Csv, "a,b\n\n\nc\nd,e\n", vec![4]),
        (Format::Csv, "a,b\r\n\r\n\r\nc\r\nd,e\r\n", vec![4]),
        (Format::Csv, "\n\nc\n\nd\n", vec![3, 5]),
        (Format::Csv, "\u{feff}\nc\na,b", vec![2]),
        (Format::Csv, "a,\"b\n\nb\"\n\nc", vec![5]),
        (Format::Tsv, "a\tb\n\n\nc\n", vec![4]),
    ] {
        let found = all(format, &second, false, text.as_bytes());
        let lines: Vec<u64> = found
            .iter()
            .filter_map(|found| Some(found.as_ref().err()?.0))
            .collect();
        assert_eq!(lines, wanted, "{text:?}");
    }
    // Also far behind what is kept of the file.
    for line_end in ["\n", "\r\n"] {
        let mut text = format!("some,thing{line_end}{line_end}").repeat(20_000);
        text += &format!("c{line_end}");
        let found = all(Format::Csv, &second, false, text.as_bytes());
        let last = found.last().unwrap().as_ref().unwrap_err();
        assert_eq!(last.0, 40_001, "{line_end:?}");
    }
}

#[test]
fn no_field_is_there_twice() {
    let good = r#"{"key":"a","value":"b"}"#;
    for line in [
        r#"{"key":"a","key":"b","value":1}"#,
        r#"{"key":"a","value":1,"value":1}"#,
        r#"{"key":"a","x":1,"y":2,"\u0078":3}"#,
        r#"{"key":"a","value":1,"key_hex":"61","key_hex":"62"}"#,
    ] {
        let text = format!("{good}\n{line}\n{good}");
        let found = all(Format::Jsonl, &Columns::default(), false, text.as_bytes());
        let Err((number, why)) = &found[1] else {
            panic!("{line}: {found:?}")
        };
        assert_eq!((*number, found.len()), (2, 3), "{line}");
        assert!(why.contains("twice"), "{line}: {why}");
    }
}

#[test]
fn columns_that_cannot_be() {
    for (format, columns) in [
        (Format::Tsv, columns("0", &[])),
        (Format::Tsv, columns("name", &[])),
        (Format::Csv, columns("1", &["missing"])),
        (
            Format::Jsonl,
            Columns {
                header: true,
                ..Columns::default()
            },
        ),
    ] {
        let refused = read(format, &columns, false, Box::new(&b"a,b\n"[..]));
        assert!(matches!(refused, Err(Failure::Misuse(_))), "{columns:?}");
    }
}

#[test]
fn formats_are_guessed() {
    let guess = |name: &str| Format::choose(None, Some(Path::new(name))).ok();
    assert_eq!(guess("a/b.tsv.gz"), Some(Format::Tsv));
    assert_eq!(guess("B.CSV"), Some(Format::Csv));
    assert_eq!(guess("b.ndjson"), Some(Format::Jsonl));
    assert_eq!(guess("b.txt"), None);
    assert_eq!(guess("gz"), None);
    assert_eq!(
        Format::choose(Some(Format::Csv), Some(Path::new("b.txt"))).unwrap(),
        Format::Csv
    );
    assert_eq!(Format::choose(None, None).unwrap(), Format::Tsv);
}

/// Damaged texts of each format are read or refused, line by line; what is read can be written and read again.
///
/// `CENOTE_TEST_SEED` and `CENOTE_DAMAGE_CASES` change the run.
#[test]
fn damaged_texts_are_read_or_refused() {
    use cenote_damage::child::number;
    use cenote_damage::random::Random;
    const SAMPLES: [&str; 5] = [
        "key\tvalue\na\\tb\\x41\t1\n\n\\\\\t\n",
        "key,value,more\r\n\"a \"\"quoted\"\"\nline\",2,\"x,y\"\n,,\n",
        "{\"key\":\"a\",\"value\":\"b\"}\n{\"key\":{\"base64\":\"YQ==\"},\"value\":[1,null,{\"x\":1e9}]}\n",
        "\u{feff}key\tvalue\n\r\n\0\t\u{fffd}\n",
        "{\"key\":\"\\ud800\",\"value\":\"\\u0000\"}\n\"just text\"\n12\n",
    ];
    let seed = number("CENOTE_TEST_SEED").unwrap_or(1);
    let cases = number("CENOTE_DAMAGE_CASES").unwrap_or(6_000);
    println!("seed: CENOTE_TEST_SEED={seed}, {cases} cases");
    for case in seed..seed + cases {
        let mut random = Random::new(case);
        let format = [Format::Tsv, Format::Csv, Format::Jsonl][random.below(3) as usize];
        let mut text = SAMPLES[random.below(5) as usize]
            .as_bytes()
            .repeat(1 + random.below(3) as usize);
        for _ in 0..random.below(8) {
            let at = random.below(text.len() as u64) as usize;
            match random.below(5) {
                0 => text[at] ^= 1 << random.below(8),
                1 => text[at] = b"\t\n\r\",\\{}[]:x\0\xff"[random.below(14) as usize],
                2 => drop(text.drain(at..(at + 5).min(text.len()))),
                3 => text.truncate(at + 1),
                _ => text.insert(at, random.draw() as u8),
            }
            if text.is_empty() {
                break;
            }
        }
        let columns = match random.below(3) {
            0 => Columns::default(),
            1 => columns("key", &["value"]),
            _ => Columns {
                header: true,
                ..columns("2", &["1", "3"])
            },
        };
        let told = || format!("CENOTE_TEST_SEED={case} CENOTE_DAMAGE_CASES=1 ({format:?}, {text:x?})");
        let Ok(mut source) = read(format, &columns, random.below(2) == 0, Box::new(&text[..])) else {
            continue;
        };
        let mut pairs = Vec::new();
        for step in 0.. {
            assert!(step <= text.len() + 2, "no end: {}", told());
            let mut pair = Pair::default();
            match source.next(&mut pair) {
                Ok(Next::Pair) => pairs.push(pair),
                Ok(Next::Bad { line, why }) => assert!(line > 0 && !why.is_empty(), "{}", told()),
                Ok(Next::End) | Err(_) => break,
            }
        }
        let mut sink = Sink::new(format, Vec::new());
        for pair in &pairs {
            sink.write(&pair.key, &pair.value).unwrap();
        }
        let written = sink.finish().unwrap();
        let again: Vec<_> = all(format, &Columns::default(), false, &written)
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(again, pairs, "{}", told());
        // What options say of sizes.
        let _ = cenote::parse_size(&String::from_utf8_lossy(&text[..text.len().min(12)]));
    }
}
