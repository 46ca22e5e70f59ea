//! The video U-Net over several devices.

use std::sync::{Arc, OnceLock};

use common::check::{Tolerance, compare};
use common::group_test;
use common::prelude::*;
use phase3_all_layers::backends::workspace::{Pass, Workspace};
use phase3_all_layers::backends::{Cpu, OnHost, Unfused};
use phase3_all_layers::models::resnet::{self, ResNet};
use phase3_all_layers::models::unet::{Config, INPUTS, UNet};
use phase3_all_layers::nn::graph::{Graph, Node, Recorder};
use phase3_all_layers::nn::schedule::{Running, Step};
use phase3_all_layers::nn::{Backend, Operation, Value};
use phase4_fusion::models::Arithmetic;
use phase4_fusion::models::plan::{Finish, Plan, RankSum};
use phase4_fusion::models::runner::Runner;
use phase4_fusion::tensor_parallel::{Ranks, Sum, Sums, pairs, split};

const CONFIG: Config = Config { channels: 16, heads: 8 };
const LATENTS: [usize; 4] = [1, INPUTS, 8, 8];
const SHAPES: [&[usize]; 2] = [&LATENTS, &[1]];
/// ResNet18 with narrow layers.
const RESNET: resnet::Config = resnet::Config { widths: [8, 16, 16, 24], blocks: [2; 4], classes: 10 };
const IMAGES: [usize; 4] = [1, 3, 32, 32];
const ATTENTIONS: usize = 23;
const RESIDUALS: usize = 22;

fn graph() -> &'static Graph {
    static GRAPH: OnceLock<Graph> = OnceLock::new();
    GRAPH.get_or_init(|| CONFIG.graph(&CONFIG.seeded(8), &LATENTS).unwrap())
}

fn inputs() -> [Tensor; 2] {
    [Tensor::random(&LATENTS, 1), Tensor::full(&[1], 700.0)]
}

/// The network up to the first convolution of stride 2: two residual blocks with an attention block each.
fn beginning() -> Graph {
    let strided =
        |node: &Node| matches!(&node.operations[0], Operation::Conv2d { params, .. } if params.stride == [2, 2]);
    let last = graph().nodes.iter().position(strided).unwrap();
    graph().part(0..last + 1).unwrap().graph
}

/// Inputs of a graph, and its expected result: the first of its outputs, by the CPU.
struct Expected {
    graph: Graph,
    inputs: Vec<Tensor>,
    y: Tensor,
}

impl Expected {
    fn of_beginning() -> Expected {
        let graph = beginning();
        let [x, steps] = inputs();
        // In the order in which it takes them.
        let inputs = vec![steps, x];
        let cpu = Cpu::new();
        let network = graph.clone().load(&cpu).unwrap();
        let given: Vec<Value<'_, Cpu>> = inputs.iter().map(|input| Value::given(&cpu, input)).collect();
        let y = network.forward_all(&given).unwrap().to_host().unwrap();
        Expected { graph, inputs, y }
    }

    fn of_resnet18() -> Expected {
        let (parameters, images, cpu) = (RESNET.seeded(1), Tensor::random(&IMAGES, 2), Cpu::new());
        let graph = Graph::record(&ResNet::load(&Recorder, RESNET, &parameters).unwrap(), &IMAGES).unwrap();
        let y = cpu.infer(&ResNet::load(&cpu, RESNET, &parameters).unwrap(), &images).unwrap();
        Expected { graph, inputs: vec![images], y }
    }

    fn of_all() -> Expected {
        let ([x, steps], cpu) = (inputs(), Cpu::new());
        let y = cpu.infer(&UNet::load(&cpu, CONFIG, &CONFIG.seeded(8)).unwrap().at(inputs()[1].to_host().unwrap()), &x);
        Expected { graph: graph().clone(), inputs: vec![x, steps], y: y.unwrap() }
    }

    fn shapes(&self) -> Vec<&[usize]> {
        self.inputs.iter().map(Tensor::shape).collect()
    }

    fn inputs(&self) -> Vec<&Tensor> {
        self.inputs.iter().collect()
    }

    fn is_near(&self, ranks: &Ranks, found: &Tensor) -> bool {
        let plan = ranks.first_plan();
        [plan.error_bound(), plan.likely_error()].into_iter().all(|bound| {
            let tolerance = Tolerance::of_scale(bound, self.y.as_slice().unwrap());
            let report = compare(found.as_slice().unwrap(), self.y.as_slice().unwrap(), tolerance);
            println!("{report:?}");
            report.is_ok()
        })
    }
}

fn check(group: &DeviceGroup, expected: &Expected, arithmetic: Arithmetic, sums: Sums, again: bool) -> Result<()> {
    let mut ranks = Ranks::new(group, arithmetic, &expected.graph, &expected.shapes(), sums)?;
    assert_eq!(ranks.plans().len(), group.len());
    assert_eq!(ranks.first_plan().sums().count(), pairs(&expected.graph).len());
    let first = ranks.infer(&expected.inputs())?;
    assert!(expected.is_near(&ranks, &first));
    // All ranks have the same bits.
    for rank in 0..group.len() {
        assert_eq!(ranks.output(rank)?.as_slice()?, first.as_slice()?, "rank {rank}");
    }
    if again {
        check_again(group, expected, &mut ranks, &first)?;
    }
    Ok(())
}

/// A second pass, on GPUs the first by graphs, allocates nothing and gives the same bits.
fn check_again(group: &DeviceGroup, expected: &Expected, ranks: &mut Ranks, first: &Tensor) -> Result<()> {
    let before: Vec<_> = group.devices().iter().map(Device::memory).collect();
    group.devices().iter().for_each(Device::reset_peak_memory);
    assert_eq!(ranks.infer(&expected.inputs())?.as_slice()?, first.as_slice()?);
    for (device, before) in group.devices().iter().zip(before) {
        let after = device.memory();
        assert_eq!((after.peak, after.allocations), (before.in_use, before.allocations));
    }
    Ok(())
}

/// Sums of values that do not fill a vector, and of none, again and again; the rest of the result's memory is NaN.
fn check_sums(group: &DeviceGroup, shared: bool) -> Result<()> {
    let streams: Vec<Stream> = group.devices().iter().map(Device::stream).collect();
    let (mut sum, finish) = (Sum::new(group, shared)?, Finish::default());
    for len in [0, 1, 7, 301] {
        let two = |pass: &Pass| Ok([pass.intermediate(&[len])?, pass.intermediate(&[len])?]);
        let workspace = |device| Workspace::plan(device, |pass| two(pass).map(drop));
        let mut workspaces = group.devices().iter().map(workspace).collect::<Result<Vec<_>>>()?;
        let (mut sums, mut expected) = (Vec::new(), vec![0.0; len]);
        for ((workspace, stream), rank) in workspaces.iter_mut().zip(&streams).zip(1u64..) {
            let [mut terms, mut y] = two(&workspace.pass(stream))?;
            let values = Tensor::random(&[len], rank);
            expected.iter_mut().zip(values.as_slice()?).for_each(|(sum, value)| *sum += value);
            stream.memcpy_htod(values.as_slice()?, terms.buffer_mut()?)?;
            stream.poison(y.buffer_mut()?)?;
            sums.push(RankSum { terms, image: None, y, finish: &finish });
        }
        sum.queue(&streams, &mut sums)?;
        for (RankSum { y, .. }, stream) in sums.iter().zip(&streams) {
            assert_eq!(stream.clone_dtoh(y.buffer()?)?, expected, "{len} values");
        }
    }
    Ok(())
}

group_test! {
    fn two_devices_make_the_frame_of_one(group, 2) {
        check(&group, &Expected::of_all(), Arithmetic::F16, Sums::Chosen, !group.is_sim())
    }

    fn two_devices_do_in_f16_what_resnet18_does(group, 2) {
        check(&group, &Expected::of_resnet18(), Arithmetic::F16, Sums::Chosen, true)
    }

    fn two_devices_do_in_f32_what_one_does(group, 2) {
        check(&group, &Expected::of_beginning(), Arithmetic::F32, Sums::Chosen, true)
    }

    fn four_devices_do_in_tf32_what_one_does(group, 4) {
        check(&group, &Expected::of_beginning(), Arithmetic::Tf32, Sums::Shared, true)
    }

    fn one_device_does_what_its_plan_does(group, 1) {
        let (expected, device) = (Expected::of_beginning(), &group.devices()[0]);
        let (graph, shapes) = (&expected.graph, expected.shapes());
        let mut ranks = Ranks::new(&group, Arithmetic::F16, graph, &shapes, Sums::Chosen)?;
        let mut alone = Runner::new(device, Plan::new(device, Arithmetic::F16, graph.clone(), &shapes)?)?;
        let y = alone.infer_all(&device.stream(), &expected.inputs())?;
        assert_eq!(ranks.infer(&expected.inputs())?.as_slice()?, y.as_slice()?);
        assert_eq!((ranks.first_plan().launches().len(), ranks.link_bytes()), (alone.plan().launches().len(), 0));
        Ok(())
    }

    fn all_ranks_add_all_values(group, 2) {
        check_sums(&group, false)
    }

    fn each_rank_adds_its_share(group, 4) {
        check_sums(&group, true)
    }
}

/// Runs a rank's pass on the CPU up to the next sum over ranks; its terms.
fn to_next_sum<'p>(cpu: &'p Cpu, part: &Graph, pass: &mut Running<'p, Cpu>) -> Option<Tensor> {
    while let Some(Step { number, x, with }) = pass.next_step().unwrap() {
        let is_sum = |operation: &Operation| matches!(operation, Operation::AllReduce { .. });
        let (sums, operations): (Vec<_>, Vec<_>) =
            part.nodes[number].operations.iter().partition(|operation| is_sum(operation));
        let run = |x, operation: &&Operation| {
            let with = with.clone().filter(|_| operation.takes_two());
            Value::result(cpu, Cpu::run(&cpu.load((*operation).clone()).unwrap(), x, with).unwrap())
        };
        let y = operations.iter().fold(x, run);
        if !sums.is_empty() {
            return Some(y.own().unwrap());
        }
        pass.resume(y);
    }
    None
}

/// Phase 3's executor yields at each sum of a split ResNet18, and goes on with what is handed to it.
#[test]
fn the_passes_of_all_ranks_meet_at_each_sum_of_resnet18() {
    let (Expected { graph, inputs, y }, cpu) = (Expected::of_resnet18(), Cpu::new());
    let parts = [0, 1].map(|rank| split(&graph, rank, 2).unwrap());
    let schedules = parts.each_ref().map(Graph::schedule);
    let mut passes = schedules.each_ref().map(|schedule| schedule.start(vec![Value::given(&cpu, &inputs[0])]));
    let mut met = 0;
    loop {
        let mut terms = passes.iter_mut().zip(&parts).map(|(pass, part)| to_next_sum(&cpu, part, pass));
        let (first, second) = (terms.next().unwrap(), terms.next().unwrap());
        let (Some(first), Some(second)) = (first, second) else { break };
        let values = first.as_slice().unwrap().iter().zip(second.as_slice().unwrap()).map(|(a, b)| a + b).collect();
        let sum = Tensor::from_vec(first.shape(), values).unwrap();
        passes.iter_mut().for_each(|pass| pass.resume(Value::result(&cpu, sum.to_host().unwrap())));
        met += 1;
    }
    // One in each residual block.
    assert_eq!(met, 8);
    for pass in passes {
        let found = pass.outputs().unwrap().remove(0).own().unwrap();
        let expected = y.as_slice().unwrap();
        compare(found.as_slice().unwrap(), expected, Tolerance::of_scale(1e-5, expected)).unwrap();
    }
}

/// Every rank adds the bias, where only rank 0 should.
#[test]
fn a_bias_that_is_added_by_every_rank_is_found() -> Result<()> {
    let (group, expected) = (DeviceGroup::sim(2), Expected::of_beginning());
    let right: Vec<Option<Arc<Tensor>>> = split(&expected.graph, 0, 2)?.nodes.iter().map(bias).collect();
    let mut planted = 0;
    let mut part = |rank| {
        let mut part = split(&expected.graph, rank, 2)?;
        for (node, right) in part.nodes.iter_mut().zip(&right) {
            if let (Some(Operation::Linear { bias, .. }), Some(right)) = (node.operations.first_mut(), right)
                && bias.as_slice()?.iter().all(|value| *value == 0.0)
            {
                *bias = right.clone();
                planted += 1;
            }
        }
        Ok(part)
    };
    let parts = [part(0), part(1)];
    assert_eq!(planted, 2 * 2);
    let mut ranks = Ranks::of_graphs(&group, Arithmetic::F32, parts, &expected.shapes(), Sums::Chosen)?;
    let found = ranks.infer(&expected.inputs())?;
    assert!(!expected.is_near(&ranks, &found));
    Ok(())
}

fn bias(node: &Node) -> Option<Arc<Tensor>> {
    match node.operations.first() {
        Some(Operation::Linear { bias, .. }) => Some(bias.clone()),
        _ => None,
    }
}

/// A device has a part of the launches' work, and an additional launch for each sum.
#[test]
fn each_rank_has_its_part_of_the_products() -> Result<()> {
    let flops = |plan: &Plan| plan.launches().iter().filter_map(|launch| launch.flops).sum::<u64>();
    let device = Device::sim();
    let whole = Plan::new(&device, Arithmetic::F16, graph().clone(), &SHAPES)?;
    for rank in 0..2 {
        let plan = Plan::new(&device, Arithmetic::F16, split(graph(), rank, 2)?, &SHAPES)?;
        // A residual block's BatchNorm, SiLU and addition are done with the sum.
        assert_eq!(plan.launches().len(), whole.launches().len() + 2 * ATTENTIONS + RESIDUALS);
        assert!(flops(&plan) < flops(&whole) * 6 / 10);
    }
    Ok(())
}

#[test]
fn a_plan_of_one_rank_does_not_run_alone() -> Result<()> {
    let (device, expected) = (Device::sim(), Expected::of_beginning());
    let plan = Plan::new(&device, Arithmetic::F16, split(&expected.graph, 0, 2)?, &expected.shapes())?;
    let message = Runner::new(&device, plan).map(drop).unwrap_err().to_string();
    assert_eq!(message, "a plan of one of several ranks runs with those of the others");
    let unfused = split(&expected.graph, 0, 2)?.load(&Unfused::new(&device));
    let message = unfused.map(drop).unwrap_err().to_string();
    assert!(message.contains("one device has one rank's part alone"), "{message}");
    Ok(())
}
