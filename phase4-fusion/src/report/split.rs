//! The largest U-Net, split over several devices: the work and the sums of each.

use bench::parts::{Part, Report};
use bench::table::{ColumnSpec, TableBuilder};
use common::prelude::*;
use phase3_all_layers::models::unet::{Config, INPUTS};
use phase3_all_layers::nn::graph::{Graph, Node};
use phase3_all_layers::nn::{Operation, Parameters};

use crate::tensor_parallel::{Pair, pairs, split};

/// `cargo run -p phase4-fusion -- split`.
pub const PART: Part = Part {
    name: "split",
    about: "the U-Net over 2 and 4 devices: what each computes, and what they sum",
    tables: &["split-unet"],
    by_default: true,
    run,
};

const WHAT: ColumnSpec = ColumnSpec::text("what", "what");
const SUMS: ColumnSpec = ColumnSpec::number("sums", "sums", 0);
const MIB: ColumnSpec = ColumnSpec::number("mib", "MiB summed", 1);
const GFLOP: ColumnSpec = ColumnSpec::number("gflop", "GFLOP", 1);
const OF_2: ColumnSpec = ColumnSpec::number("gflop_of_2", "GFLOP, rank of 2", 1);
const OF_4: ColumnSpec = ColumnSpec::number("gflop_of_4", "GFLOP, rank of 4", 1);

const LATENTS: [usize; 4] = [2, INPUTS, 64, 64];
/// Bytes of a value in f16.
const F16: usize = 2;

/// Nothing runs: shapes are enough.
fn run(_: &Device) -> Result<Report> {
    let config = Config::PRODUCTION;
    let shapes = config.shapes().into_iter().map(|(name, shape)| (name, Tensor::shape_only(&shape)));
    let whole = config.graph(&Parameters::new(shapes), &LATENTS)?;
    let parts = [split(&whole, 0, 2)?, split(&whole, 0, 4)?];
    let pairs = pairs(&whole);
    let mut table = TableBuilder::of("U-Net production in f16, 2 × 64×64, split", [WHAT, SUMS, MIB, GFLOP, OF_2, OF_4]);
    let kinds = ["attention", "MLP", "residual convolutions", "in full on each", "all"];
    for what in kinds {
        let of_kind: Vec<&Pair> = pairs.iter().filter(|pair| what == "all" || kind(&whole, pair) == what).collect();
        let in_pair = |node: usize, pairs: &[&Pair]| pairs.iter().any(|pair| pair.nodes().any(|of| of == node));
        let all: Vec<&Pair> = pairs.iter().collect();
        let counted = |node: usize| match what {
            "all" => true,
            "in full on each" => !in_pair(node, &all),
            _ => in_pair(node, &of_kind),
        };
        let gflop = |graph: &Graph| -> Result<f64> {
            let nodes = graph.nodes.iter().enumerate().filter(|(node, _)| counted(*node));
            Ok(nodes.map(|(_, node)| flops(node)).sum::<Result<u64>>()? as f64 / 1e9)
        };
        let bytes = of_kind.iter().map(|pair| {
            let node = &whole.nodes[pair.second];
            let y = node.operations[0].output_shape(&Tensor::shape_only(&node.x.shape), None)?;
            Ok(y.iter().product::<usize>() * F16)
        });
        let bytes = bytes.sum::<Result<usize>>()?;
        let row = table.row().set(WHAT, what).set(SUMS, of_kind.len()).set(MIB, bytes as f64 / f64::from(1 << 20));
        row.set(GFLOP, gflop(&whole)?).set(OF_2, gflop(&parts[0])?).set(OF_4, gflop(&parts[1])?).complete();
    }
    table.note("MiB summed: each device's terms of all sums of a pass. GFLOP: of products and attention, of all and of one device.");
    Ok(Report { tables: vec![table.finish()], wrong: Vec::new() })
}

fn kind(graph: &Graph, pair: &Pair) -> &'static str {
    match (pair.heads(graph), &graph.nodes[pair.first].operations[0]) {
        (Some(_), _) => "attention",
        (None, Operation::Conv2d { .. }) => "residual convolutions",
        (None, _) => "MLP",
    }
}

/// Multiplications and additions of a product or an attention; 0 of others.
fn flops(node: &Node) -> Result<u64> {
    let x = Tensor::shape_only(&node.x.shape);
    let terms = match &node.operations[0] {
        Operation::Linear { weight, .. } | Operation::Conv2d { weight, .. } => weight.len() / weight.shape()[0].max(1),
        // Scores, and what they weight.
        Operation::Attention { .. } => 2 * x.shape()[1],
        _ => return Ok(0),
    };
    let y = node.operations[0].output_shape(&x, None)?;
    Ok(2 * (y.iter().product::<usize>() * terms) as u64)
}
