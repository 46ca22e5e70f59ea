//! The choice of tiles, against the times of each on an H200 (`records/nvidia-h200-sweep.json`).

use std::path::Path;

use bench::record::Record;
use common::prelude::*;
use phase4_fusion::conv::{self, Size};
use phase4_fusion::gemm::{self, Layout, Precision};

/// Multiprocessors of an H200.
const H200: usize = 132;

#[test]
fn the_tile_that_is_chosen_is_close_to_the_fastest() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("records/nvidia-h200-sweep.json");
    let record = Record::open(&path).unwrap();
    let table = record.table("sweep").unwrap();
    let device = Device::sim();
    let (convolutions, products) = (conv::Tuned::load(&device).unwrap(), gemm::Tuned::load(&device).unwrap());
    let tiles: Vec<&str> = table.columns.iter().skip(6).map(|column| column.key()).collect();
    let mut beyond = 0;
    for row in table.iter() {
        let size = |key| row.number(key).unwrap().unwrap() as usize;
        let [rows, columns, steps] = ["rows", "columns", "steps"].map(size);
        let precision = if row.text("type").unwrap() == "f16" { Precision::F16 } else { Precision::Tf32 };
        let depth = steps * 128 / precision.input().size();
        let chosen = if row.text("kind").unwrap() == "product" {
            products.choice([rows, columns, depth], precision, Layout::Transposed, H200)
        } else {
            let (input, filter) = ([1, depth, rows, 1], [columns, depth, 1, 1]);
            let layer = Size { input, filter, output: [1, columns, rows, 1], stride: 1, padding: 0 };
            convolutions.choice(&layer, precision, H200)
        };
        let chosen = chosen.unwrap();
        let time = row.number(chosen.name).unwrap().unwrap();
        let fastest = tiles.iter().filter_map(|tile| row.number(tile).unwrap()).fold(f64::INFINITY, f64::min);
        assert!(time <= 1.2 * fastest, "{rows}×{columns}, {steps} steps of {precision}: {} takes {time}", chosen.size);
        beyond += usize::from(time > 1.1 * fastest);
    }
    assert!(beyond * 50 <= table.rows().len(), "{beyond} of {} are slower by a tenth and more", table.rows().len());
}
