//! Tests of the readers: literal samples of each format, damaged ones, and any bytes.

use crate::trace::synthetic::tests::config;
use crate::trace::*;
use proptest::prelude::*;
use std::io::Write;

fn reader<'b>(format: &Format, bytes: &'b [u8]) -> Reader<'b> {
    Reader::new(Box::new(bytes), format, "sample")
}

fn columns(text: &str) -> Format {
    Format::Csv(text.parse().unwrap())
}

/// Records, and what is said of those that are bad.
fn read(format: &Format, bytes: &[u8]) -> Vec<Result<Record, String>> {
    reader(format, bytes)
        .map(|record| record.map_err(|error| error.to_string()))
        .collect()
}

#[test]
fn twitter() {
    let sample = b"0,nz:u:eeW511W3dcH3de3d15ec,22,304,2,get,0\n\
        1,q\"uote,7,0,10,gets,0\n\
        \n\
        1,k1,2,12,3,add,86400\r\n\
        4294967296,k1,2,0,18446744073709551615,delete,0";
    let records: Vec<_> = read(&Format::Twitter, sample)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(
        records[0],
        Record {
            time: 0,
            key: b"nz:u:eeW511W3dcH3de3d15ec".to_vec(),
            key_size: 22,
            value_size: 304,
            client: 2,
            operation: Operation::Get,
            ttl: 0,
        }
    );
    assert_eq!(records.len(), 4);
    assert_eq!(records[1].key, b"q\"uote");
    assert_eq!((records[2].operation, records[2].ttl), (Operation::Add, 86_400));
    assert_eq!((records[3].time, records[3].client), (1 << 32, u64::MAX));
    let mut written = Vec::new();
    for record in &records {
        write_line(record, &mut written).unwrap();
    }
    let again: Vec<_> = read(&Format::Twitter, &written)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(again, records);
}

#[test]
fn every_operation_has_a_name_and_an_action() {
    for operation in Operation::ALL {
        assert_eq!(operation.name().parse(), Ok(operation));
        let line = format!("1,k,1,9,1,{operation},0\n");
        let step = operations(reader(&Format::Twitter, line.as_bytes()))
            .next()
            .unwrap()
            .unwrap();
        let wanted = match operation {
            Operation::Get | Operation::Gets => Action::Read,
            Operation::Add => Action::Insert,
            Operation::Delete => Action::Delete,
            _ => Action::Write,
        };
        assert_eq!((step.action, step.value_size), (wanted, 9), "{operation}");
    }
}

#[test]
fn damaged_lines_say_where_and_the_next_is_read() {
    for (line, wanted) in [
        (
            "1,k,1,1,1",
            "line 2, operation: the line has 5 fields, 7 are wanted",
        ),
        ("1,k,1,1,1,get,0,9", "line 2, TTL: the line has 8 fields"),
        (
            "x,k,1,1,1,get,0",
            "line 2, timestamp: \"x\" is not a whole number of 64 bits",
        ),
        ("1,k,-1,1,1,get,0", "line 2, key size"),
        (
            "1,k,1,4294967296,1,get,0",
            "line 2, value size: \"4294967296\" is not a whole number of 32 bits",
        ),
        ("1,k,1,1,c,get,0", "line 2, client id"),
        (
            "1,k,1,1,1,got,0",
            "line 2, operation: unknown operation \"got\": known are get, gets, set",
        ),
        ("1,k,1,1,1,\u{fffd},0", "line 2, operation"),
        ("1,k,1,1,1,get,", "line 2, TTL: \"\" is not"),
        ("1,,1,1,1,get,0", "line 2, key: it is empty"),
        ("\"1,k,1,1,1,get,0", "line 2, timestamp"),
    ] {
        let text = format!("1,good,4,1,1,get,0\n{line}\n1,good,4,1,1,set,60\n");
        let read = read(&Format::Twitter, text.as_bytes());
        assert_eq!(read.len(), 3, "{line}");
        let error = read[1].as_ref().unwrap_err();
        assert!(
            error.contains(wanted) && error.starts_with("sample, "),
            "{line}: {error}"
        );
        assert!(error.contains("leave it out"), "{error}");
        assert_eq!(read[2].as_ref().unwrap().operation, Operation::Set, "{line}");
    }
}

#[test]
fn lines_are_counted_with_the_empty_ones() {
    for text in [
        "\n\n\nbad\n",
        "\n\n\nbad",
        "1,k,1,1,1,get,0\n\n\nbad\n\n",
        "\r\n\r\n\r\nbad\r\n",
        "1,k,1,1,1,get,0\r\n\r\n \r\nbad\r",
    ] {
        let error = read(&Format::Twitter, text.as_bytes())
            .pop()
            .unwrap()
            .unwrap_err();
        assert!(error.contains("line 4"), "{text:?}: {error}");
    }
    let format = columns("obj-id-col=2,has-header=1");
    let error = read(&format, b"a,b\n\n\"x\ny\",1\nbad\n")
        .pop()
        .unwrap()
        .unwrap_err();
    assert!(error.contains("line 5"), "{error}");
}

#[test]
fn csv_with_columns() {
    let cloud = "id,time,op,size,lbn\n1,5633898611441,1,512,42932745\n2, 9.75 ,1,4096,42932746\n";
    let format = columns("time-col=2,obj-id-col=5,obj-size-col=4,has-header=true,delimiter=,");
    let records: Vec<_> = read(&format, cloud.as_bytes())
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(records[0].key, b"42932745");
    assert_eq!(
        (records[0].time, records[0].key_size, records[0].value_size),
        (5_633_898_611_441, 8, 512)
    );
    assert_eq!((records[1].time, records[1].value_size), (9, 4096));
    let numeric = columns("obj-id-col=1,delimiter=;,obj-id-is-num=true");
    let records = read(&numeric, b"7;x\n\"8\";y\n-1;z\n\n9\n");
    assert_eq!(records[0].as_ref().unwrap().key, 7u64.to_be_bytes());
    assert_eq!(records[0].as_ref().unwrap().value_size, UNKNOWN_VALUE_SIZE);
    assert_eq!(records[1].as_ref().unwrap().key, 8u64.to_be_bytes());
    let error = records[2].as_ref().unwrap_err();
    assert!(error.contains("line 3, object id: \"-1\""), "{error}");
    assert_eq!(records[3].as_ref().unwrap().key, 9u64.to_be_bytes());
    for (line, wanted) in [
        ("1,2", "object size: it is column 3, the line has 2"),
        ("1,x,3", "time: \"x\" is no number of seconds"),
        ("1,-1,3", "time"),
        ("1,nan,3", "time"),
        ("1,2,x", "object size: \"x\""),
        (" ,2,3", "object id: it is empty"),
    ] {
        let format = columns("obj-id-col=1,time-col=2,obj-size-col=3");
        let error = read(&format, line.as_bytes()).pop().unwrap().unwrap_err();
        assert!(
            error.contains(wanted) && error.contains("line 1"),
            "{line}: {error}"
        );
    }
}

#[test]
fn one_id_a_line() {
    let records: Vec<_> = read(&Format::Text, b"17\n\n  a b\r\n17")
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let keys: Vec<_> = records.iter().map(|record| &*record.key).collect();
    assert_eq!(keys, [&b"17"[..], b"a b", b"17"]);
    assert_eq!((records[1].key_size, records[1].operation), (3, Operation::Get));
    assert!(read(&Format::Text, b"\n\n").is_empty());
}

#[test]
fn oracle_general() {
    let record = |time: u32, id: u64, size: u32, next: i64| {
        [
            &time.to_le_bytes()[..],
            &id.to_le_bytes(),
            &size.to_le_bytes(),
            &next.to_le_bytes(),
        ]
        .concat()
    };
    let bytes = [
        record(1, 0x0102_0304_0506_0708, 512, 3),
        record(2, u64::MAX, 0, i64::MAX),
        record(2, 9, 1, -3),
        record(3, 9, 1, -1),
        record(3, 9, 1, -2)[..13].to_vec(),
    ]
    .concat();
    let read = read(&Format::Oracle, &bytes);
    let first = read[0].as_ref().unwrap();
    assert_eq!(first.key, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((first.time, first.key_size, first.value_size), (1, 8, 512));
    assert_eq!(read[1].as_ref().unwrap().key, [255; 8]);
    let error = read[2].as_ref().unwrap_err();
    assert!(error.contains("record 3, next access: -3"), "{error}");
    assert!(read[3].is_ok());
    let error = read[4].as_ref().unwrap_err();
    assert!(
        error.contains("record 5") && error.contains("13 of its 24"),
        "{error}"
    );
    assert_eq!(read.len(), 5);
}

#[test]
fn files_by_their_names() {
    let folder = std::env::temp_dir().join(format!("cenote-trace-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let content = b"1,k,1,10,1,get,0\n".repeat(1_000);
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&content).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = ruzstd::encoding::compress_to_vec(&*content, ruzstd::encoding::CompressionLevel::Fastest);
    for (name, bytes) in [("plain", content), ("a.gz", gzip), ("a.zst", zstd)] {
        let path = folder.join(name);
        std::fs::write(&path, &bytes).unwrap();
        let records: Result<Vec<_>, _> = Reader::open(&path, &Format::Twitter).unwrap().collect();
        assert_eq!(records.unwrap().len(), 1_000, "{name}");
        if name != "plain" {
            std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
            let mut cut: Vec<_> = Reader::open(&path, &Format::Twitter).unwrap().collect();
            let error = cut.pop().unwrap().unwrap_err();
            assert!(!error.is_one_record(), "{name}: {error}");
            assert!(error.to_string().contains(name) && cut.iter().all(Result::is_ok));
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let missing = Reader::open(&folder.join("plain"), &Format::Twitter)
        .err()
        .unwrap();
    assert!(missing.to_string().contains("plain"), "{missing}");
}

fn any_format() -> impl Strategy<Value = Format> {
    prop_oneof![
        Just(Format::Twitter),
        Just(Format::Oracle),
        Just(Format::Text),
        Just(columns("obj-id-col=2,time-col=1,obj-size-col=3")),
        Just(columns("obj-id-col=1,obj-id-is-num=1,has-header=1,delimiter=\\t")),
    ]
}

fn trace_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b",".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"1,k,1,1,1,get,0\n".to_vec()),
        "[0-9]{1,21}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..30),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn any_bytes_are_read_or_refused(format in any_format(), bytes in trace_like()) {
        // Ends, and is never at a loss for more records than there are bytes.
        prop_assert!(reader(&format, &bytes).count() <= bytes.len());
        let good = reader(&format, &bytes).filter(Result::is_ok).count();
        prop_assert_eq!(operations(reader(&format, &bytes)).filter(Result::is_ok).count(), good);
    }

    #[test]
    fn any_bytes_are_unpacked_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..300) {
        let mut packed = ruzstd::encoding::compress_to_vec(&*bytes, ruzstd::encoding::CompressionLevel::Fastest);
        if let Some(byte) = packed.get_mut(cut) {
            *byte ^= 0x55;
        }
        for packing in [Packing::Gzip, Packing::Zstd] {
            for input in [&bytes, &packed] {
                let reader = Reader::new(packing.unpack(&**input), &Format::Text, "sample");
                prop_assert!(reader.take(10_000).filter(Result::is_err).count() <= 1);
            }
        }
    }

    #[test]
    fn any_text_is_columns_or_refused(text in "[a-z=,0-9 \\\\-]{0,60}") {
        let _ = text.parse::<Columns>();
    }
}
