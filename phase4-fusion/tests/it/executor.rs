//! The persistent executor: its tasks compute the right values, cannot wait forever, and wait for everything they need.

use std::sync::Arc;

use common::check::{Tolerance, compare};
use common::device::SimOptions;
use common::device_test;
use common::prelude::*;
use common::reference::Conv2dParams;
use phase3_all_layers::backends::{Cpu, OnHost};
use phase3_all_layers::models::unet::{Config, INPUTS, UNet};
use phase3_all_layers::nn::graph::{Graph, Recorder, Recording};
use phase3_all_layers::nn::{Backend, Operation, Value};
use phase4_fusion::executor::task::Kind;
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
    Ok(Value::result(pass, Recorder::run(operation, x, with)?))
}

fn tensor(shape: &[usize], seed: u64) -> Arc<Tensor> {
    Arc::new(Tensor::random(shape, seed))
}

/// Result of the CPU for the same graph, operation by operation.
fn on_cpu(graph: Graph, inputs: &[Tensor]) -> Result<Tensor> {
    let cpu = Cpu::new();
    let network = graph.load(&cpu)?;
    let values: Vec<Value<'_, Cpu>> = inputs.iter().map(|input| Value::given(&cpu, input)).collect();
    network.forward_all(&values)?.own()
}

/// Result of the executor for a graph; another number of blocks and another pass must give the same bits.
fn executed(device: &Device, program: &Program, inputs: &[&Tensor]) -> Result<Tensor> {
    let stream = device.stream();
    let mut executor = Executor::with_blocks(&stream, program, 2)?;
    let output = executor.infer(&stream, inputs)?;
    // The counters were set back.
    assert_eq!(executor.infer(&stream, inputs)?.as_slice()?, output.as_slice()?);
    Ok(output)
}

/// One operation, or a few, against the CPU's; `operations` (γ) for each value besides the sums of `terms` products.
fn check(
    device: &Device,
    inputs: &[Tensor],
    terms: usize,
    network: impl for<'p> Fn(Vec<Recorded<'p>>) -> Result<Recorded<'p>>,
) -> Result<Program> {
    let shapes: Vec<&[usize]> = inputs.iter().map(Tensor::shape).collect();
    let program = Program::new(graph(&shapes, &network)?, &shapes, PROCESSORS)?;
    program.critical_path()?;
    let expected = on_cpu(graph(&shapes, &network)?, inputs)?;
    let found = executed(device, &program, &inputs.iter().collect::<Vec<_>>())?;
    assert_eq!(found.shape(), expected.shape());
    // Inputs and weights are at most 1 in magnitude, layers here two deep at most: their sums are at most `terms` each, and so are
    // those of their absolute values; exponentials and the like add a few operations.
    let tolerance = Tolerance::dot(2 * (terms + 16), terms as f64);
    let report = compare(found.as_slice()?, expected.as_slice()?, tolerance);
    println!("{}", report.unwrap_or_else(|wrong| panic!("{shapes:?}: {wrong}")));
    Ok(program)
}

fn conv([outputs, inputs]: [usize; 2], window: usize, stride: usize, seed: u64) -> Operation {
    Operation::Conv2d {
        weight: tensor(&[outputs, inputs, window, window], seed),
        bias: Some(tensor(&[outputs], seed + 1)),
        params: Conv2dParams::new(stride, window / 2),
    }
}

fn linear(outputs: usize, inputs: usize, seed: u64) -> Operation {
    Operation::Linear { weight: tensor(&[outputs, inputs], seed), bias: tensor(&[outputs], seed + 1) }
}

fn batch_norm(channels: usize, seed: u64) -> Operation {
    let part = |seed| tensor(&[channels], seed);
    let variance = Arc::new(Tensor::from_fn(&[channels], |at| 1.0 + 0.25 * at[0] as f32));
    Operation::BatchNorm { weight: part(seed), bias: part(seed + 1), mean: part(seed + 2), variance, eps: 1e-5 }
}

/// One of each epilogue, and of operands that are only read differently.
fn epilogues(values: Vec<Recorded<'_>>) -> Result<Recorded<'_>> {
    let [x, e]: [Recorded<'_>; 2] = values.try_into().unwrap();
    let apply = |operation, x, with| then(&operation, x, with);
    let first = apply(conv([6, 6], 3, 2, 10), x.clone(), None)?;
    let first = apply(Operation::Silu, apply(batch_norm(6, 20), first, None)?, None)?;
    let e = apply(linear(6, 3, 30), e, None)?;
    let y = apply(Operation::AddChannel, first.clone(), Some(e))?;
    let large = apply(Operation::Upsample { factor: 2 }, y.clone(), None)?;
    let large = apply(conv([5, 6], 3, 1, 40), large, None)?;
    let same = apply(conv([5, 6], 1, 1, 50), x, None)?;
    let sum = apply(Operation::Relu, apply(Operation::Add, large, Some(same))?, None)?;
    let both = apply(Operation::Concatenate, sum.clone(), Some(sum.clone()))?;
    let joined = apply(Operation::Gelu, apply(conv([5, 10], 3, 1, 60), both, None)?, None)?;
    let joined = apply(Operation::Add, joined, Some(sum))?;
    apply(Operation::Silu, apply(batch_norm(5, 70), joined, None)?, None)
}

device_test! {
    /// Strides, ragged images and channels, operands read in fours and others, and parts of K.
    fn convolutions_of_ragged_shapes(device) {
        for ([count, channels, height, width], outputs, window, stride) in
            [([2, 3, 7, 5], 5, 3, 1), ([1, 8, 9, 6], 6, 3, 2), ([3, 1, 1, 1], 1, 1, 1), ([1, 128, 3, 5], 18, 3, 1)]
        {
            let x = [Tensor::random(&[count, channels, height, width], 1)];
            let operation = conv([outputs, channels], window, stride, 3);
            let terms = channels * window * window + 1;
            let program = check(&device, &x, terms, |values| then(&operation, values[0].clone(), None))?;
            let parts = program.tasks().iter().map(|task| program.parts(task)).max().unwrap_or(0);
            assert_eq!(parts > 1, channels == 128, "K of {}", channels * window * window);
        }
        Ok(())
    }

    /// Sums before and after the activation, values per channel, a concatenation and an upsampling that are only read, BatchNorm alone.
    fn epilogues_and_how_products_read(device) {
        let x = [Tensor::random(&[2, 6, 4, 6], 1), Tensor::random(&[2, 3], 2)];
        // Six layers, of which each multiplies by less than its 91 terms.
        check(&device, &x, 6 * 91, epilogues).map(drop)
    }

    /// LayerNorm is a part of the product; attention with one lane per query and with several, with queries that end within a tile.
    fn attention_blocks(device) {
        for ([count, tokens, channels], heads) in [([2, 5, 6], 3), ([1, 70, 24], 2), ([1, 33, 20], 1)] {
            let x = [Tensor::random(&[count * tokens, channels], 1)];
            let norm = Operation::LayerNorm { weight: tensor(&[channels], 2), bias: tensor(&[channels], 3), eps: 1e-5 };
            check(&device, &x, 3 * channels, |values| {
                let y = values[0].clone();
                let qkv = then(&linear(3 * channels, channels, 4), then(&norm, y.clone(), None)?, None)?;
                let qkv = qkv.reshape(&[count, tokens, 3 * channels])?;
                let attended = then(&Operation::Attention { heads }, qkv, None)?.reshape(&[count * tokens, channels])?;
                then(&Operation::Add, y, Some(then(&linear(channels, channels, 6), attended, None)?))
            })?;
        }
        Ok(())
    }

    fn timesteps_are_embedded(device) {
        let steps = Tensor::from_vec(&[3], vec![0.0, 1.0, 999.0])?;
        check(&device, &[steps], 1, |values| then(&Operation::TimestepEmbedding { channels: 6 }, values[0].clone(), None))
            .map(drop)
    }
}

/// A whole U-Net of this configuration, on the device and the CPU.
fn network(device: &Device, config: Config, steps: &[f32], blocks: usize) -> Result<Vec<f32>> {
    let (x, steps) =
        (Tensor::random(&[steps.len(), INPUTS, 8, 8], 1), Tensor::from_vec(&[steps.len()], steps.to_vec())?);
    let parameters = config.seeded(8);
    let cpu = Cpu::new();
    let expected = cpu.infer(&UNet::load(&cpu, config, &parameters)?.at(steps.to_host()?), &x)?;
    let program = unet(config, &parameters, x.shape(), PROCESSORS)?;
    let stream = device.stream();
    let noise = Executor::with_blocks(&stream, &program, blocks)?.infer(&stream, &[&x, &steps])?;
    let tolerance = Tolerance::of_scale(program.error_bound(), expected.as_slice()?);
    let report = compare(noise.as_slice()?, expected.as_slice()?, tolerance);
    println!("{blocks} blocks: {}", report.unwrap_or_else(|wrong| panic!("{wrong}")));
    noise.into_vec()
}

const NARROW: Config = Config { channels: 4, heads: 2 };

device_test! {
    /// Two images at different steps.
    fn a_narrow_unet_is_within_the_bound(device) {
        network(&device, NARROW, &[700.0, 10.0], 2).map(drop)
    }
}

/// Without the sanitiser, which sees each kind of task above. A single block must finish, as must more than any device holds at
/// once, and all give the same bits.
fn same_bits(device: &Device) {
    let one = network(device, TINY, &[700.0], 1).unwrap();
    for blocks in [2, 5] {
        assert_eq!(network(device, NARROW, &[700.0], blocks).unwrap(), network(device, NARROW, &[700.0], 1).unwrap());
    }
    if device.is_cuda() {
        for blocks in [2, 132, 5000] {
            assert_eq!(network(device, TINY, &[700.0], blocks).unwrap(), one, "{blocks} blocks");
        }
    }
}

#[test]
fn the_tiny_unet_has_the_same_bits_for_any_number_of_blocks_sim() {
    same_bits(&Device::sim());
}

#[test]
fn the_tiny_unet_has_the_same_bits_for_any_number_of_blocks_cuda() {
    if let Some(device) = common::private::cuda_for_test("blocks") {
        same_bits(&device);
    }
}

/// Tasks that do not wait race, and the sanitiser reports it. Attention needs rows of all tiles before it, some of which other
/// blocks still work on when the first attention task is taken.
#[test]
fn a_wait_that_is_left_out_is_found() {
    const TOKENS: usize = 320;
    let (x, qkv, attention) = (Tensor::random(&[TOKENS, 4], 1), linear(12, 4, 2), Operation::Attention { heads: 1 });
    let shapes = [x.shape()];
    let graph = graph(&shapes, |values| {
        let qkv = then(&qkv, values[0].clone(), None)?.reshape(&[1, TOKENS, 12])?;
        then(&attention, qkv, None)
    });
    let program = Program::new(graph.unwrap(), &shapes, PROCESSORS).unwrap();
    let run = |program: &Program| {
        let device = Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() });
        let stream = device.stream();
        Executor::with_blocks(&stream, program, 3).unwrap().infer(&stream, &[&x])
    };
    run(&program).unwrap();
    let mut hasty = program.clone();
    for task in hasty.tasks_mut() {
        task.number = [0; 3];
    }
    let error = run(&hasty).unwrap_err().to_string();
    assert!(error.contains("error[global-race]"), "{error}");

    // An order in which blocks could wait forever is refused.
    let mut turned = program.clone();
    turned.tasks_mut().reverse();
    let error = turned.critical_path().unwrap_err().to_string();
    assert!(error.contains("which a later task increases"), "{error}");
}

#[test]
fn what_is_only_read_differently_is_no_task() {
    let program = unet(TINY, &TINY.seeded(8), &[1, INPUTS, 8, 8], PROCESSORS).unwrap();
    let shares = program.shares();
    let layers = |kind| shares[&kind].layers;
    let (residuals, attentions) = (2 * 4 + 2 + 3 * 4, 2 * 4 + 3 + 3 * 4);
    // Two convolutions and a linear layer of each residual block, 14 shortcuts, four linear layers of each attention block, the first
    // and the last convolution, three down and three up, two linear layers of the timesteps.
    assert_eq!(layers(Kind::Product), 3 * residuals + 14 + 4 * attentions + 2 + 3 + 3 + 2);
    assert_eq!([Kind::Attention, Kind::Pointwise, Kind::Embedding].map(layers), [attentions, 1, 1]);
    // Embedding and its two linear layers, that of a block, two convolutions for each block, five for an attention; three resamplings
    // each way, and the last two. The first convolutions and the shortcuts run beside those.
    assert_eq!(program.critical_path().unwrap(), 4 + 2 * residuals + 5 * attentions + 3 + 3 + 2);
}

#[test]
fn what_the_executor_does_not_have_is_named() {
    let refused = |shape: &[usize], operation: Operation| {
        let graph = graph(&[shape], |values| then(&operation, values[0].clone(), None)).unwrap();
        let error = Program::new(graph, &[shape], PROCESSORS).unwrap_err();
        assert!(error.is_unsupported(), "{error}");
        error.to_string()
    };
    assert!(refused(&[1, 2, 4, 4], Operation::AveragePool).contains("AvgPool"));
    assert!(refused(&[1, 2, 4, 4], Operation::Upsample { factor: 3 }).contains("upsampling by 3"));
    assert!(refused(&[1, 3, 3 * 640], Operation::Attention { heads: 1 }).contains("heads of 640"));
    assert!(refused(&[1, 2, 4, 4], Operation::Transpose).contains("Transpose"));
}
