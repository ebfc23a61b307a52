//! reproduce: tables, files, and names that are none.

use super::Here;

#[test]
fn figures_are_printed_and_written() {
    let here = Here::new();
    let text = here.ok("reproduce pcc/fig5");
    assert!(
        text.contains("simulated") && text.contains("sync load, one word"),
        "{text}"
    );
    assert!(text.contains("target/reproduce/pcc/fig5.svg"), "{text}");
    let svg = std::fs::read_to_string(here.path("target/reproduce/pcc/fig5.svg")).unwrap();
    assert!(svg.starts_with("<svg"), "{svg}");

    // Those that take no more than seconds.
    let printed = here.ok("reproduce pcc/fig5,pcc/fig12 --out ./figures --json");
    let names: Vec<String> = printed
        .lines()
        .map(|line| {
            let figure: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(figure["origin"] == "simulated");
            assert!(here.path(figure["files"]["json"].as_str().unwrap()).is_file());
            figure["name"].as_str().unwrap().to_owned()
        })
        .collect();
    let all = here.ok("reproduce list");
    assert!(names.iter().all(|name| all.lines().any(|known| known == name)));
    assert!(
        all.contains("pcc/table1\n") && all.contains("pcc/fig13\n") && all.contains("soul/fig9\n"),
        "{all}"
    );
}

#[test]
fn unknown_figures_are_refused() {
    let here = Here::new();
    let message = here.fails(2, "reproduce pcc/fig5,pcc/fig99");
    assert!(
        message.contains("pcc/fig99") && message.contains("pcc/fig12"),
        "{message}"
    );
    here.fails(2, "reproduce");
    std::fs::write(here.path("occupied"), "").unwrap();
    let message = here.fails(1, "reproduce pcc/fig12 --out occupied");
    assert!(message.contains("occupied"), "{message}");
}
