//! The persistent executor: what its tasks compute, that they cannot wait forever, and that each waits for all it needs.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use common::check::{Tolerance, assert_close, compare};
use common::device::SimOptions;
use common::device_test;
use common::prelude::*;
use common::reference::Conv2dParams;
use phase3_all_layers::backends::{Cpu, OnHost};
use phase3_all_layers::models::unet::{Config, INPUTS, UNet};
use phase3_all_layers::nn::graph::{Graph, Recorder, Recording};
use phase3_all_layers::nn::{Backend, Operation, Value};
use phase4_fusion::executor::task::{Kind, NONE};
use phase4_fusion::executor::{Executor, Program, unet};

const TINY: Config = Config::TINY;
/// Multiprocessors that programs are cut for here.
const PROCESSORS: usize = 132;

type Recorded<'p> = Value<'p, Recorder>;

/// The graph that `network` records over inputs of these shapes.
fn graph(inputs: &[&[usize]], network: impl for<'p> Fn(Vec<Recorded<'p>>) -> Result<Recorded<'p>>) -> Result<Graph> {
    let recording = Recording::new(inputs);
    let output = network(recording.inputs().collect())?;
    recording.graph(&output)
}

/// One more operation.
fn then<'p>(operation: &Operation, x: Recorded<'p>, with: Option<Recorded<'p>>) -> Result<Recorded<'p>> {
    let pass = x.pass();
    Ok(Value::made(pass, Recorder::run(operation, x, with)?))
}

fn tensor(shape: &[usize], seed: u64) -> Arc<Tensor> {
    Arc::new(Tensor::random(shape, seed))
}

/// What the CPU makes of the same graph, operation by operation.
fn on_cpu(graph: Graph, inputs: &[Tensor]) -> Result<Tensor> {
    let cpu = Cpu::new();
    let network = graph.load(&cpu)?;
    let values: Vec<Value<'_, Cpu>> = inputs.iter().map(|input| Value::given(&cpu, input)).collect();
    network.forward_all(&values)?.own()
}

device_test! {
    fn the_tiny_unet_is_within_the_bound(device) {
        let steps = [700.0, 10.0];
        let (x, steps) = (Tensor::random(&[2, INPUTS, 8, 8], 1), Tensor::from_vec(&[2], steps.to_vec())?);
        let parameters = TINY.seeded(8);
        let cpu = Cpu::new();
        let expected = cpu.infer(&UNet::load(&cpu, TINY, &parameters)?.at(steps.to_host()?), &x)?;
        let program = unet(TINY, &parameters, x.shape(), PROCESSORS)?;
        let stream = device.stream();
        let mut executor = Executor::new(&stream, &program)?;
        let noise = executor.infer(&stream, &[&x, &steps])?;
        let tolerance = Tolerance::of_scale(program.error_bound(), expected.as_slice()?);
        let report = compare(noise.as_slice()?, expected.as_slice()?, tolerance);
        println!("{}", report.unwrap_or_else(|wrong| panic!("{wrong}")));
        // The counters were set back: a second pass gives the same bits.
        assert_eq!(executor.infer(&stream, &[&x, &steps])?.as_slice()?, noise.as_slice()?);
        Ok(())
    }
}
