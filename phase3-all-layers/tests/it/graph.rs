//! The basis of rewrites: a network as a list of operations, which is recorded, changed, and run by any backend.

use crate::models;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use common::device_test;
use common::prelude::*;
use phase3_all_layers::backends::{ConvOnDevice, Cpu, OnHost, Planned, Unfused};
use phase3_all_layers::models::resnet::{Config, ResNet};
use phase3_all_layers::models::unet;
use phase3_all_layers::nn::graph::{Graph, Node, Operand, Recorder, Recording, Source};
use phase3_all_layers::nn::{Module, Operation, Value};

use models::assert_last_layer;

const NARROW: Config = Config { widths: [8, 12, 16, 20], blocks: [2, 1, 2, 1], classes: 10 };
const IMAGES: [usize; 4] = [2, 3, 40, 36];
/// Convolutions, each with its BatchNorm: the opening, two for each of six blocks, three shortcuts.
const CONVS: usize = 1 + 2 * 6 + 3;
const RELUS: usize = 1 + 2 * 6;
const ADDITIONS: usize = 6;
/// Max pooling, average pooling, the linear layer.
const OTHERS: usize = 3;

fn recorded() -> Graph {
    let network = ResNet::load(&Recorder, NARROW, &NARROW.seeded(1)).unwrap();
    Graph::record(&network, &IMAGES).unwrap()
}

/// A network by the CPU.
fn by_cpu(module: impl Fn(&Cpu) -> Result<Tensor>) -> Tensor {
    module(&Cpu::new()).unwrap()
}

fn expected(images: &Tensor) -> Tensor {
    by_cpu(|cpu| cpu.infer(&ResNet::load(cpu, NARROW, &NARROW.seeded(1))?, images))
}

fn is(operations: &[Operation], kinds: &[&str]) -> bool {
    operations.iter().map(Operation::kind).eq(kinds.iter().copied())
}

/// Convolution and BatchNorm; then a sum, if there is one; then ReLU.
fn fuses(first: &[Operation], then: &[Operation]) -> bool {
    let then = then[0].kind();
    match then {
        "BatchNorm" => is(first, &["Conv2D"]),
        "Add" => is(first, &["Conv2D", "BatchNorm"]),
        "ReLU" => is(first, &["Conv2D", "BatchNorm"]) || is(first, &["Conv2D", "BatchNorm", "Add"]),
        _ => false,
    }
}

device_test! {
    fn a_recorded_network_gives_the_same_bits_in_the_same_memory(device) {
        let images = Tensor::random(&IMAGES, 2);
        let expected = expected(&images);
        let on_cpu = by_cpu(|cpu| cpu.infer(&recorded().load(cpu)?, &images));
        assert_eq!(on_cpu.as_slice()?, expected.as_slice()?);

        let (backend, stream) = (Unfused::new(&device), device.stream());
        let network = ResNet::load(&backend, NARROW, &NARROW.seeded(1))?;
        let mut planned = Planned::new(&device, &network, &IMAGES)?;
        let rebuilt = recorded().load(&backend)?;
        let mut replanned = Planned::new(&device, &rebuilt, &IMAGES)?;
        assert_eq!(replanned.workspace().bytes(), planned.workspace().bytes());
        let logits = planned.infer(&stream, &images)?;
        assert_eq!(replanned.infer(&stream, &images)?.as_slice()?, logits.as_slice()?);
        // A chain runs as its parts.
        let mut chained = recorded();
        chained.chain(fuses);
        let chained = chained.load(&backend)?;
        assert_eq!(Planned::new(&device, &chained, &IMAGES)?.infer(&stream, &images)?.as_slice()?, logits.as_slice()?);
        assert_last_layer(&logits, &expected);

        let halfway = ConvOnDevice::new(&device);
        assert_last_layer(&halfway.infer(&recorded().load(&halfway)?, &images)?, &expected);
        Ok(())
    }
}

#[test]
fn operations_of_a_chain_run_one_after_the_other() {
    let images = Tensor::random(&IMAGES, 2);
    let mut graph = recorded();
    assert_eq!(graph.nodes.len(), 2 * CONVS + RELUS + ADDITIONS + OTHERS);
    graph.chain(fuses);
    let of = |kinds: &[&str]| graph.nodes.iter().filter(|node| is(&node.operations, kinds)).count();
    assert_eq!(of(&["Conv2D", "BatchNorm", "ReLU"]), 1 + 6);
    assert_eq!(of(&["Conv2D", "BatchNorm", "Add", "ReLU"]), 6);
    assert_eq!(of(&["Conv2D", "BatchNorm"]), 3);
    assert_eq!(graph.nodes.len(), CONVS + OTHERS);
    let logits = by_cpu(|cpu| cpu.infer(&graph.clone().load(cpu)?, &images));
    assert_eq!(logits.as_slice().unwrap(), expected(&images).as_slice().unwrap());
}

/// A convolution equivalent to a convolution and its BatchNorm: its weight times γ / √(variance + eps), and a bias.
fn folded(conv: &Operation, norm: &Operation) -> Operation {
    let Operation::Conv2d { weight, bias: None, params } = conv else { panic!("{conv:?}") };
    let Operation::BatchNorm { weight: gamma, bias: beta, mean, variance, eps } = norm else { panic!("{norm:?}") };
    let [gamma, beta, mean, variance] = [gamma, beta, mean, variance].map(|part| part.as_slice().unwrap());
    let scale: Vec<f32> = gamma.iter().zip(variance).map(|(gamma, variance)| gamma / (variance + eps).sqrt()).collect();
    let outputs = scale.len();
    let bias = Tensor::from_fn(&[outputs], |at| beta[at[0]] - mean[at[0]] * scale[at[0]]);
    let values = weight.as_slice().unwrap();
    let taps = values.len() / outputs;
    let scaled = values.iter().enumerate().map(|(at, value)| value * scale[at / taps]).collect();
    let weight = Arc::new(Tensor::from_vec(weight.shape(), scaled).unwrap());
    Operation::Conv2d { weight, bias: Some(Arc::new(bias)), params: *params }
}

#[test]
fn a_norm_folds_into_the_convolution_that_it_follows() {
    let images = Tensor::random(&IMAGES, 2);
    let expected = expected(&images);
    let mut graph = recorded();
    graph.chain(|first, then| then[0].kind() == "BatchNorm" && is(first, &["Conv2D"]));
    let mut found = 0;
    for Node { operations, .. } in &mut graph.nodes {
        if let [conv, norm] = &operations[..] {
            *operations = vec![folded(conv, norm)];
            found += 1;
        }
    }
    assert_eq!(found, CONVS);
    let text = graph.to_string();
    assert!(text.starts_with("  0  Conv2D  input 0 [2, 3, 40, 36]\n  1  ReLU  0 [2, 8, 20, 18]\n"), "{text}");
    assert!(!text.contains("BatchNorm"), "{text}");
    let logits = by_cpu(|cpu| cpu.infer(&graph.clone().load(cpu)?, &images));
    assert_ne!(logits.as_slice().unwrap(), expected.as_slice().unwrap());
    assert_last_layer(&logits, &expected);
}

#[test]
fn what_is_no_part_of_a_pass_is_refused() {
    let network = ResNet::load(&Recorder, NARROW, &NARROW.seeded(1)).unwrap();
    let (recording, other) = (Recording::new(&[&IMAGES]), Tensor::shape_only(&IMAGES));
    let error = network.forward(Value::given(&recording, &other)).unwrap_err().to_string();
    assert!(error.contains("[2, 3, 40, 36] is no input of the recorded pass"), "{error}");
    let input = recording.inputs().next().unwrap();
    let error = recording.graph(&input).unwrap_err().to_string();
    assert!(error.contains("does not make its output"), "{error}");
    // A graph on which another image is tried.
    let wrong = Tensor::zeros(&[2, 3, 40, 40]);
    let cpu = Cpu::new();
    assert!(cpu.infer(&recorded().load(&cpu).unwrap(), &wrong).is_err());
}

/// Runs parts of these ranges one after the other on the CPU, each on the results of those before it, and returns the values of
/// `output`.
fn run_in_parts(graph: &Graph, ranges: impl IntoIterator<Item = Range<usize>>, inputs: [Tensor; 2]) -> Tensor {
    let cpu = Cpu::new();
    let mut values: HashMap<Source, Tensor> =
        inputs.into_iter().enumerate().map(|(number, input)| (Source::Input(number), input)).collect();
    for range in ranges {
        let part = graph.part(range.clone()).unwrap();
        let network = part.graph.load(&cpu).unwrap();
        let given = |Operand { source, shape }: &Operand| {
            assert_eq!(values[source].shape(), shape, "{range:?} takes {source:?}");
            Value::given(&cpu, &values[source])
        };
        let inputs: Vec<_> = part.inputs.iter().map(given).collect();
        let made = network.outputs(&inputs).unwrap();
        let made: Vec<Tensor> = made.into_iter().map(|value| value.own().unwrap()).collect();
        drop(inputs);
        values.extend(part.outputs.iter().map(|output| output.source).zip(made));
    }
    values.remove(&graph.outputs()[0].source).unwrap()
}

/// Parts of one node each cut everywhere; of two parts each keeps what the other needs, wherever the cut is.
#[test]
fn a_network_that_is_cut_anywhere_gives_the_same_bits() {
    let (config, latents) = (unet::Config { channels: 8, heads: 2 }, [1, unet::INPUTS, 8, 8]);
    let graph = config.graph(&config.seeded(3), &latents).unwrap();
    let inputs = || [Tensor::random(&latents, 5), Tensor::full(&[1], 321.0)];
    let count = graph.nodes.len();
    let whole = run_in_parts(&graph, std::iter::once(0..count), inputs());
    let cpu = Cpu::new();
    let network = unet::UNet::load(&cpu, config, &config.seeded(3)).unwrap();
    let expected = cpu.infer(&network.at(Tensor::full(&[1], 321.0)), &inputs()[0]).unwrap();
    assert_eq!(whole.as_slice().unwrap(), expected.as_slice().unwrap());
    for size in [1, 17, 101] {
        let ranges = (0..count).step_by(size).map(|start| start..(start + size).min(count));
        let cut = run_in_parts(&graph, ranges, inputs());
        assert_eq!(cut.as_slice().unwrap(), expected.as_slice().unwrap(), "parts of {size}");
    }
    // Fused after it was cut: chains do not swallow what another part takes.
    let mut part = graph.part(count / 3..count / 2).unwrap();
    let (outputs, nodes) = (part.graph.outputs().len(), part.graph.nodes.len());
    part.graph.chain(|_, then| !then[0].takes_two());
    assert!(part.graph.nodes.len() < nodes && outputs > 1);
    for output in part.graph.outputs() {
        assert!(matches!(output.source, Source::Node(node) if node < part.graph.nodes.len()));
    }
    for wrong in [3..3, 0..count + 1] {
        let error = graph.part(wrong).unwrap_err().to_string();
        assert!(error.contains("has no part"), "{error}");
    }
}
