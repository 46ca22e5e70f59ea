//! Runs of strangers: input, and not ours.

use bench::record::Record;
use serde_json::{Value, json};

fn run() -> Value {
    json!({
        "format": "warp-by-warp 1", "device": "cuda:0 X (sm_90)", "device_name": "X", "simulated": false, "host": "h",
        "date": "2026-03-01T12:00:00Z", "commit": "c",
        "tables": [{ "name": "gemm", "table": {
            "title": "t", "notes": [],
            "columns": [{ "name": "step", "decimals": null }, { "name": "ms", "decimals": 2 }],
            "rows": [[{ "text": "a" }, { "number": 1.5 }], [{ "text": "b" }, { "absent": "none" }]],
        }}],
    })
}

/// The reason for which the run is refused once the value at `place` is replaced.
fn refused(place: &str, value: Value) -> Option<String> {
    let mut run = run();
    *run.pointer_mut(place).unwrap() = value;
    Record::from_json("f", &run.to_string()).err().map(|error| error.to_string())
}

#[test]
fn what_is_no_run_of_ours_is_refused_where_it_is_read() {
    assert_eq!(refused("/commit", json!("d")), None);
    let column = |decimals: u64| json!({ "name": "ms", "decimals": decimals });
    for (place, value, reason) in [
        ("/date", json!("yesterday"), "is no date"),
        ("/date", json!("1e999"), "is no date"),
        ("/commit", json!("c".repeat(20_000)), "a text of 20000 bytes"),
        ("/tables/0/name", json!("../gemm"), "name is not made of"),
        ("/tables/0/name", json!("GEMM"), "name is not made of"),
        ("/tables/0/name", json!(""), "name is not made of"),
        ("/tables/0/name", json!("a".repeat(65)), "name is not made of"),
        ("/tables/0/table/columns/1", column(70_000), "70000 decimals"),
        ("/tables/0/table/columns/1", json!({ "name": "step", "decimals": 2 }), "two columns have the key `step`"),
        ("/tables/0/table/columns/1", json!({ "name": "ms", "decimals": 2, "line": 0 }), "the lines of `ms`"),
        ("/tables/0/table/rows/0/1", json!({ "number": 5e-324 }), "is no measurement"),
        ("/tables/0/table/rows/0/1", json!({ "number": -1e308 }), "is no measurement"),
        ("/tables/0/table/rows/0", json!([{ "text": "a" }]), "row 0 has 1 cells for 2 columns"),
        ("/tables/0/table/rows", json!(vec![[0; 0]; 20_001]), "20001 rows"),
        ("/tables/0/table/notes", json!(vec!["n"; 201]), "201 notes"),
    ] {
        let found = refused(place, value);
        assert!(found.as_ref().is_some_and(|found| found.contains(reason)), "{place}: {reason}: {found:?}");
    }
    let twice = run()["tables"][0].clone();
    assert!(refused("/tables", json!([twice, twice])).unwrap().contains("there are two of them"));
    let again = json!({ "date": "never", "commit": "c", "host": "h" });
    let table = |key: &str, value: Value| {
        let mut table = run()["tables"][0].clone();
        table[key] = value;
        table
    };
    assert!(refused("/tables/0", table("again", again)).unwrap().contains("is no date"));
    let spread = json!({ "runs": 3, "rows": [[null, [1.0, 1e300]], [null, null]] });
    assert!(refused("/tables/0", table("spread", spread)).unwrap().contains("is no measurement"));
    let readings = json!({ "name": "n", "unit": "u", "before": 1e300, "least": 0, "median": 0, "most": 0, "after": 0 });
    let conditions = json!({ "driver": "d", "readings": 1, "quantities": [readings], "slowed": [] });
    assert!(refused("/tables/0", table("conditions", conditions)).unwrap().contains("is no measurement"));
}
