//! From a recorded graph to layers and tasks.
//!
//! All values lie channels last, so that a transposition between an image and its tokens moves nothing; an upsampling and a
//! concatenation are how a convolution reads, and a LayerNorm is what a linear layer does to its rows first. So none of these is a task.

use std::sync::Arc;

use common::prelude::*;
use common::reference::{AttentionSize, Conv2dParams};
use phase3_all_layers::nn::graph::{Graph, Node, Operand, Source as From};
use phase3_all_layers::nn::{Operation, second};

use super::cut::{Cut, Heads, Window, unsupported};
use super::task::{Kind, Layer, NONE, OPERANDS, Source, Task};
use super::{FIRST_COUNTER, Port, Program};
use crate::gemm::activation_number;
use crate::models::fuse::{self, Addition, EpilogueSpec};
use crate::models::parameters::{folded, scale_shift};

/// Floats that a value begins at a multiple of: a line of the cache.
const ALIGNED: usize = 32;
/// Rows times channels of a pointwise task.
const POINTWISE: usize = 4096;

/// A value in the arena, which a layer or the host writes, as [rows, channels].
#[derive(Clone, Debug)]
struct Held {
    at: Source,
    rows: usize,
    channels: usize,
    /// `None` if the host writes it.
    counters: Option<Counters>,
}

/// The counters of a value's rows, which the tasks that write them increase.
#[derive(Clone, Copy, Debug)]
struct Counters {
    first: u32,
    /// Rows of each counter.
    rows: usize,
    /// Count at which the rows are complete.
    needed: u32,
    /// The longest chain of layers before the one that writes it.
    level: usize,
}

impl Held {
    /// First counter and number of them for these rows.
    fn waits(&self, rows: std::ops::Range<usize>) -> (u32, u32) {
        match self.counters {
            Some(counters) if !rows.is_empty() => {
                let (first, last) = (rows.start / counters.rows, (rows.end - 1) / counters.rows);
                (counters.first + first as u32, (last - first + 1) as u32)
            }
            _ => (0, 0),
        }
    }

    /// As images of this many pixels; a linear layer's rows are images of one. Whoever made it may have seen other images.
    fn images(&self, pixels: usize) -> Source {
        let image = if self.at.channel == 1 { (pixels * self.channels) as u32 } else { self.at.image };
        Source { image, ..self.at }
    }

    /// Fails unless it lies as [rows, channels] without gaps.
    fn plain(&self) -> Result<u32> {
        if self.at.channel == 1 && self.at.pixel as usize == self.channels {
            return Ok(self.at.offset);
        }
        Err(unsupported("a second operand that is an input in planes", "it is read channels last"))
    }
}

/// A value of the graph as layers see it.
#[derive(Clone, Debug)]
struct View {
    /// One, or two whose channels are side by side.
    parts: Vec<Held>,
    /// It is that image, enlarged by 2^up.
    up: usize,
    /// LayerNorm of it: γ, β and ε.
    norm: Option<(Arc<Tensor>, Arc<Tensor>, f32)>,
    /// Whether the graph has the channels of an image before its pixels.
    planes: bool,
}

impl View {
    fn of(held: Held, planes: bool) -> View {
        View { parts: vec![held], up: 0, norm: None, planes }
    }

    /// The value itself, if it is one.
    fn held(&self) -> Result<&Held> {
        match &self.parts[..] {
            [held] if self.up == 0 && self.norm.is_none() => Ok(held),
            _ => Err(unsupported(
                "a concatenation, an upsampling or a LayerNorm that no product takes",
                "it is how a product reads",
            )),
        }
    }
}

fn epilogue(operations: &[Operation]) -> Result<EpilogueSpec<'_>> {
    EpilogueSpec::of(operations).map_err(no_epilogue)
}

fn no_epilogue(operation: &Operation) -> Error {
    unsupported(format!("{} after another layer", operation.kind()), "no epilogue does it")
}

/// The work so far.
pub(super) struct Lowering {
    processors: usize,
    layers: Vec<Layer>,
    tasks: Vec<(usize, Task)>,
    flops: Vec<u64>,
    parameters: Vec<f32>,
    arena: usize,
    counters: u32,
    inputs: Vec<View>,
    nodes: Vec<View>,
}

/// The program of a graph with inputs of these shapes.
pub(super) fn lower(mut graph: Graph, inputs: &[&[usize]], processors: usize) -> Result<Program> {
    fuse::bases(&mut graph)?;
    fuse::epilogues_side_by_side(&mut graph);
    let mut lowering = Lowering {
        processors,
        layers: Vec::new(),
        tasks: Vec::new(),
        flops: Vec::new(),
        parameters: Vec::new(),
        arena: 0,
        counters: FIRST_COUNTER,
        inputs: Vec::new(),
        nodes: Vec::new(),
    };
    let mut ports = Vec::new();
    for shape in inputs {
        let [rows, channels] = rows_and_channels(shape)?;
        let at = lowering.room(shape, [rows, channels])?;
        ports.push(Port { offset: at.offset as usize, shape: shape.to_vec() });
        lowering.inputs.push(View::of(Held { at, rows, channels, counters: None }, shape.len() == 4));
    }
    let last = graph.nodes.len().saturating_sub(1);
    let output_shape = match graph.outputs() {
        [output] if output.source == From::Node(last) => output.shape.clone(),
        _ => return Err(unsupported("a network of several outputs", "a pass leaves one, its last")),
    };
    for (number, node) in graph.nodes.iter().enumerate() {
        let output = (number == last).then_some(&output_shape[..]);
        let view = lowering.node(node, output)?;
        lowering.nodes.push(view);
    }
    let last = lowering.nodes.last().and_then(|view| view.held().ok().filter(|held| held.counters.is_some()));
    let offset = last.map(|held| held.at.offset as usize);
    let offset = offset.ok_or_else(|| unsupported("a network that ends in a reshape", "its output has no place"))?;
    let output = Port { offset, shape: output_shape };
    // ANCHOR: order
    // By the longest chain of layers before each, so that what can run side by side lies side by side. Stable: a layer's tasks stay in
    // their order. A task waits for layers of a lower level alone, so it comes after all those that it waits for.
    lowering.tasks.sort_by_key(|(level, _)| *level);
    let tasks: Vec<Task> = lowering.tasks.into_iter().map(|(_, task)| task).collect();
    // ANCHOR_END: order
    let Lowering { layers, flops, mut parameters, arena, counters, .. } = lowering;
    if parameters.is_empty() {
        parameters.push(0.0); // no buffer is empty
    }
    Ok(Program { layers, tasks, flops, parameters, arena, counters, inputs: ports, output })
}

/// The rows and channels of a shape as it lies channels last: images \[N, C, H, W\], tokens \[N, T, C\], rows \[R, C\], numbers \[N\].
fn rows_and_channels(shape: &[usize]) -> Result<[usize; 2]> {
    match *shape {
        [count] => Ok([count, 1]),
        [rows, channels] => Ok([rows, channels]),
        [count, tokens, channels] => Ok([count * tokens, channels]),
        [count, channels, height, width] => Ok([count * height * width, channels]),
        _ => Err(unsupported(format!("a value {shape:?}"), "up to four dimensions are known")),
    }
}

impl Lowering {
    /// A place for `len` floats.
    fn take(&mut self, len: usize) -> Result<u32> {
        let offset = self.arena;
        self.arena = (offset + len).next_multiple_of(ALIGNED);
        u32::try_from(self.arena).map_err(|_| unsupported("an arena of 16 GiB", "offsets are u32"))?;
        Ok(offset as u32)
    }

    /// A place for a value that the host reads or writes, in its own order.
    fn room(&mut self, shape: &[usize], [rows, channels]: [usize; 2]) -> Result<Source> {
        let offset = self.take(rows * channels)?;
        Ok(match *shape {
            [_, channels, height, width] => {
                Source { offset, image: (channels * height * width) as u32, pixel: 1, channel: (height * width) as u32 }
            }
            _ => Source { offset, image: channels as u32, pixel: channels as u32, channel: 1 },
        })
    }

    /// A place for a layer's result; that of the last one lies as the host reads it.
    fn result(&mut self, rows: usize, channels: usize, pixels: usize, output: Option<&[usize]>) -> Result<Source> {
        match output {
            Some(shape) => self.room(shape, [rows, channels]),
            None => {
                let offset = self.take(rows * channels)?;
                Ok(Source { offset, image: (pixels * channels) as u32, pixel: channels as u32, channel: 1 })
            }
        }
    }

    /// Adds parameters; where they begin.
    fn store(&mut self, values: impl IntoIterator<Item = f32>) -> Result<u32> {
        let offset = self.parameters.len();
        self.parameters.extend(values);
        let end = self.parameters.len().next_multiple_of(ALIGNED);
        self.parameters.resize(end, 0.0);
        u32::try_from(end).map_err(|_| unsupported("16 GiB of parameters", "offsets are u32"))?;
        Ok(offset as u32)
    }

    /// The value of an operand, if its shape is one of the values as they lie.
    fn view(&self, operand: &Operand) -> Result<View> {
        let view = match operand.source {
            From::Input(number) => self.inputs.get(number),
            From::Node(number) => self.nodes.get(number),
        };
        let view = view.ok_or_else(|| Error::Invalid("a graph's node works on a later one".to_owned()))?;
        Ok(view.clone())
    }

    /// [`Lowering::view`] of a value that is seen as rows or an image whose channels are these.
    fn seen(&self, operand: &Operand) -> Result<View> {
        let view = self.view(operand)?;
        let [rows, channels] = rows_and_channels(&operand.shape)?;
        let has = [view.parts[0].rows << (2 * view.up), view.parts.iter().map(|part| part.channels).sum()];
        if [rows, channels] != has || view.planes != (operand.shape.len() == 4) {
            let what = format!("{has:?} rows and channels seen as {:?}", operand.shape);
            return Err(unsupported(what, "values stay where they are"));
        }
        Ok(view)
    }

    fn node(&mut self, node: &Node, output: Option<&[usize]>) -> Result<View> {
        let Some((first, then)) = node.operations.split_first() else {
            return Err(Error::Invalid("a node of a graph has no operation".to_owned()));
        };
        match first {
            Operation::Conv2d { params, .. } => {
                let epilogue = epilogue(then)?;
                let conv = epilogue.norm.map(|norm| folded(first, norm)).transpose()?.flatten();
                let Operation::Conv2d { weight, bias, .. } = conv.as_ref().unwrap_or(first) else {
                    return Err(Error::Invalid("a folded convolution is none".to_owned()));
                };
                self.product(node, output, weight, bias.as_deref(), *params, &epilogue)
            }
            Operation::Linear { weight, bias } => {
                let [outputs, inputs] = weight.dims("a linear layer's weight")?;
                let weight = Tensor::from_vec(&[outputs, inputs, 1, 1], weight.as_slice()?.to_vec())?;
                let epilogue = epilogue(then)?;
                epilogue.norm.map_or(Ok(()), |norm| Err(no_epilogue(norm)))?;
                self.product(node, output, &weight, Some(bias), Conv2dParams::default(), &epilogue)
            }
            Operation::Attention { heads } if then.is_empty() => self.attention(node, output, *heads),
            Operation::TimestepEmbedding { channels } if then.is_empty() => {
                let x = self.seen(&node.x)?.held()?.clone();
                let result = self.result(x.rows, *channels, 1, output)?;
                let layer = Layer {
                    operation: Kind::Embedding as u32,
                    rows: x.rows as u32,
                    columns: *channels as u32,
                    x: x.at,
                    result,
                    tile: x.rows as u32,
                    ..Layer::default()
                };
                let whole = x.rows;
                Ok(View::of(
                    self.push(layer, [Some(&x), None, None], whole.max(1), 1, |rows| [rows.clone(), rows, 0..0]),
                    false,
                ))
            }
            // How those that take the value read it.
            Operation::Transpose if then.is_empty() && output.is_none() => {
                let view = self.view(&node.x)?;
                let [rows, channels] = match (&node.x.shape[..], view.planes) {
                    (shape @ [_, _, _, _], true) | (shape @ [_, _, _], false) => rows_and_channels(shape)?,
                    (&[count, channels, columns], true) => [count * columns, channels],
                    _ => [0, 0],
                };
                let held = view.held()?;
                if [rows, channels] != [held.rows, held.channels] {
                    return Err(unsupported(
                        "a transposition of other values than an image's",
                        "values stay where they are",
                    ));
                }
                Ok(View { planes: !view.planes, ..view })
            }
            Operation::Concatenate if then.is_empty() => {
                let second = self.seen(second(node.with.as_ref())?)?;
                let parts = vec![self.seen(&node.x)?.held()?.clone(), second.held()?.clone()];
                parts[1].plain()?;
                Ok(View { parts, up: 0, norm: None, planes: true })
            }
            Operation::Upsample { factor } if then.is_empty() => {
                if !factor.is_power_of_two() {
                    return Err(unsupported(format!("upsampling by {factor}"), "coordinates are shifted"));
                }
                let x = self.seen(&node.x)?.held()?.clone();
                Ok(View { up: factor.trailing_zeros() as usize, ..View::of(x, true) })
            }
            Operation::LayerNorm { weight, bias, eps } if then.is_empty() => {
                let x = self.seen(&node.x)?.held()?.clone();
                x.plain()?;
                let norm = Some((weight.clone(), bias.clone(), *eps));
                Ok(View { norm, ..View::of(x, node.x.shape.len() == 4) })
            }
            other => {
                // What can follow a product can stand alone.
                match EpilogueSpec::of(std::slice::from_ref(other)) {
                    Ok(_) => self.pointwise(node, output),
                    Err(_) => Err(unsupported(other.kind(), "the executor has no operation for it")),
                }
            }
        }
    }

    /// Sets a layer's epilogue, apart from a BatchNorm; the operand that it adds.
    fn finish(&mut self, layer: &mut Layer, node: &Node, epilogue: &EpilogueSpec<'_>) -> Result<Option<Held>> {
        layer.activation = activation_number(epilogue.activation) as u32;
        let Some(addition) = epilogue.addition else { return Ok(None) };
        let with = self.seen(second(node.with.as_ref())?)?.held()?.clone();
        let per_channel = addition == Addition::PerChannel;
        let (offset, rows) = (with.plain()?, if per_channel { layer.rows / layer.pixels } else { layer.rows });
        if [with.rows, with.channels] != [rows as usize, layer.columns as usize] {
            let what = format!("a sum of {} × {} and {} × {}", layer.rows, layer.columns, with.rows, with.channels);
            return Err(unsupported(what, "both must be of one shape"));
        }
        match addition {
            Addition::PerChannel => (layer.added, layer.added_pitch) = (offset, layer.columns),
            Addition::BeforeActivation => (layer.image, layer.image_is_later) = (offset, 0),
            Addition::AfterActivation => (layer.image, layer.image_is_later) = (offset, 1),
        }
        Ok(Some(with))
    }

    fn product(
        &mut self,
        node: &Node,
        output: Option<&[usize]>,
        weight: &Tensor,
        bias: Option<&Tensor>,
        params: Conv2dParams,
        epilogue: &EpilogueSpec<'_>,
    ) -> Result<View> {
        let view = self.seen(&node.x)?;
        let [outputs, channels, window, width_of_window] = weight.dims4()?;
        let is_square = |pair: [usize; 2]| pair[0] == pair[1];
        if window != width_of_window
            || params.groups != 1
            || params.dilation != [1, 1]
            || !is_square(params.stride)
            || !is_square(params.padding)
        {
            return Err(unsupported("a convolution with groups, dilation or other sides", "windows are square"));
        }
        let (stride, padding, planes) = (params.stride[0], params.padding[0], node.x.shape.len() == 4);
        let ([count, _, height, width], [out_height, out_width]) = match *node.x.shape {
            [count, channels, height, width] => {
                let [_, _, out_height, out_width] = params.output_shape(&Tensor::shape_only(&node.x.shape), weight)?;
                ([count, channels, height, width], [out_height, out_width])
            }
            _ => ([view.parts[0].rows, channels, 1, 1], [1, 1]),
        };
        let x = view.parts[0].clone();
        let behind = view.parts.get(1).cloned();
        let source = |held: &Held| held.images((height >> view.up) * (width >> view.up));
        if view.norm.is_some() && planes {
            return Err(unsupported("LayerNorm before a convolution", "linear layers normalise their rows"));
        }
        let (weight_at, pitch, bias_at) = self.weights(weight, bias, view.norm.as_ref())?;
        let (rows, depth) = (count * out_height * out_width, window * window * channels);
        let cut = Cut::choose(rows, outputs, depth, self.processors);
        let pixels = out_height * out_width;
        let wide = x.at.channel == 1 && view.parts.iter().all(|part| part.channels.is_multiple_of(4));
        let column_tiles = outputs.div_ceil(cut.tile);
        let partials = match cut.parts {
            1 => 0,
            parts => self.take(rows.div_ceil(cut.tile) * column_tiles * parts * cut.tile * cut.tile)?,
        };
        let result = self.result(rows, outputs, pixels, output)?;
        let mut layer = Layer {
            operation: Kind::Product as u32,
            rows: rows as u32,
            columns: outputs as u32,
            depth: depth as u32,
            pixels: pixels as u32,
            x: source(&x),
            second: behind.as_ref().map(source).unwrap_or_default(),
            result,
            channels: channels as u32,
            of_x: x.channels as u32,
            height: height as u32,
            width: width as u32,
            out_height: out_height as u32,
            out_width: out_width as u32,
            window: window as u32,
            stride: stride as u32,
            padding: padding as u32,
            up: view.up as u32,
            weight: weight_at,
            pitch,
            bias: bias_at,
            normalise: u32::from(view.norm.is_some()),
            eps: view.norm.as_ref().map_or(0.0, |(_, _, eps)| *eps),
            wide: u32::from(wide),
            tile: cut.tile as u32,
            parts: cut.parts as u32,
            part_depth: cut.part_depth as u32,
            partials,
            column_tiles: column_tiles as u32,
            ..Layer::default()
        };
        let with = self.finish(&mut layer, node, epilogue)?;
        let per_channel = epilogue.addition == Some(Addition::PerChannel);
        let read = Window {
            pixels: [height >> view.up, width >> view.up],
            out: [out_height, out_width],
            window,
            stride,
            padding,
            up: view.up,
        };
        let of_tile = |rows: std::ops::Range<usize>| {
            let read = read.rows(rows.clone());
            [read.clone(), read, if per_channel { rows.start / pixels..(rows.end - 1) / pixels + 1 } else { rows }]
        };
        Ok(View::of(
            self.push(layer, [Some(&x), behind.as_ref(), with.as_ref()], cut.tile, column_tiles, of_tile),
            planes,
        ))
    }

    /// Stores a product's weights as \[K\]\[pitch\], and its bias, with the scale and shift of a LayerNorm before it.
    fn weights(
        &mut self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        norm: Option<&(Arc<Tensor>, Arc<Tensor>, f32)>,
    ) -> Result<(u32, u32, u32)> {
        let [outputs, channels, window, _] = weight.dims4()?;
        let (values, pitch) = (weight.as_slice()?, outputs.next_multiple_of(4));
        let norm = norm.map(|(gamma, beta, _)| Ok::<_, Error>((gamma.as_slice()?, beta.as_slice()?))).transpose()?;
        let taps = window * window;
        let mut packed = vec![0.0; taps * channels * pitch];
        for (at, value) in values.iter().enumerate() {
            let (out, channel, tap) = (at / (channels * taps), at / taps % channels, at % taps);
            let scale = norm.map_or(1.0, |(gamma, _)| gamma[channel]);
            packed[(tap * channels + channel) * pitch + out] = value * scale;
        }
        let weight_at = self.store(packed)?;
        let bias = bias.map(Tensor::as_slice).transpose()?;
        let shift = |out: usize| {
            let of_norm = norm.map_or(0.0, |(_, beta)| {
                let row = &values[out * channels..(out + 1) * channels];
                row.iter().zip(beta).map(|(weight, beta)| f64::from(*weight) * f64::from(*beta)).sum()
            });
            (f64::from(bias.map_or(0.0, |bias| bias[out])) + of_norm) as f32
        };
        let has_shift = bias.is_some() || norm.is_some();
        let bias_at = if has_shift { self.store((0..outputs).map(shift).collect::<Vec<_>>())? } else { NONE };
        Ok((weight_at, pitch as u32, bias_at))
    }

    fn attention(&mut self, node: &Node, output: Option<&[usize]>, heads: usize) -> Result<View> {
        let x = self.seen(&node.x)?.held()?.clone();
        x.plain()?;
        let size = AttentionSize::of(&Tensor::shape_only(&node.x.shape), heads)?;
        let AttentionSize { batch, tokens, channels, .. } = size;
        let choice = Heads::choose(&size, self.processors)?;
        let queries = choice.queries();
        let result = self.result(batch * tokens, channels, tokens, output)?;
        let layer = Layer {
            operation: Kind::Attention as u32,
            rows: (batch * tokens) as u32,
            columns: channels as u32,
            pixels: tokens as u32,
            x: x.at,
            result,
            channels: channels as u32,
            tile: queries as u32,
            heads: heads as u32,
            tokens: tokens as u32,
            key_parts: choice.key_parts as u32,
            lanes: choice.lanes as u32,
            each: choice.each as u32,
            scale: (size.scale() * std::f64::consts::LOG2_E) as f32,
            ..Layer::default()
        };
        // A tile of queries ends where its image does; so do a counter's rows.
        let tiles = tokens.div_ceil(queries);
        let aligned = tokens.is_multiple_of(queries);
        let (per_counter, needed) = if aligned { (queries, heads) } else { (tokens, heads * tiles) };
        let counters = self.counters(batch * tokens, per_counter, needed, [Some(&x), None, None]);
        let number = self.layer(layer, [Some(&x), None, None], 4 * (batch * tokens * tokens * channels) as u64);
        for (image, row, head) in (0..batch)
            .flat_map(|image| (0..tiles).map(move |row| (image, row)))
            .flat_map(|(image, row)| (0..heads).map(move |head| (image, row, head)))
        {
            let (first, wait) = x.waits(image * tokens..(image + 1) * tokens);
            let task = Task {
                layer: number,
                row: row as u32,
                column: (image * heads + head) as u32,
                part: 0,
                first: [first, 0, 0],
                number: [wait, 0, 0],
                signal: counters.first + ((image * tokens + row * queries) / per_counter) as u32,
                merged: 0,
            };
            self.tasks.push((counters.level, task));
        }
        Ok(View::of(Held { at: layer.result, rows: batch * tokens, channels, counters: Some(counters) }, false))
    }

    fn pointwise(&mut self, node: &Node, output: Option<&[usize]>) -> Result<View> {
        let view = self.seen(&node.x)?;
        let x = view.held()?.clone();
        let epilogue = epilogue(&node.operations)?;
        let norm = epilogue.norm.map(|norm| scale_shift(norm, None)).transpose()?.flatten();
        let (weight, bias) = match norm {
            Some(norm) => (self.store(norm.scale)?, self.store(norm.shift)?),
            None => (NONE, NONE),
        };
        let pixels = match node.x.shape[..] {
            [_, _, height, width] => height * width,
            _ => 1,
        };
        let result = self.result(x.rows, x.channels, pixels, output)?;
        let tile = (POINTWISE / x.channels.max(1)).max(1);
        let mut layer = Layer {
            operation: Kind::Pointwise as u32,
            rows: x.rows as u32,
            columns: x.channels as u32,
            pixels: pixels as u32,
            x: x.images(pixels),
            result,
            weight,
            bias,
            tile: tile as u32,
            ..Layer::default()
        };
        let with = self.finish(&mut layer, node, &epilogue)?;
        let per_channel = epilogue.addition == Some(Addition::PerChannel);
        let of_tile = |rows: std::ops::Range<usize>| {
            let with = if per_channel { rows.start / pixels..(rows.end - 1) / pixels + 1 } else { rows.clone() };
            [rows, 0..0, with]
        };
        Ok(View::of(self.push(layer, [Some(&x), None, with.as_ref()], tile, 1, of_tile), view.planes))
    }

    /// Counters for a value, one for each `per_counter` rows.
    fn counters(
        &mut self,
        rows: usize,
        per_counter: usize,
        needed: usize,
        operands: [Option<&Held>; OPERANDS],
    ) -> Counters {
        let of_operands = operands.into_iter().flatten().filter_map(|operand| operand.counters);
        let level = of_operands.map(|counters| counters.level + 1).max().unwrap_or(0);
        let first = self.counters;
        self.counters += rows.div_ceil(per_counter) as u32;
        Counters { first, rows: per_counter, needed: needed as u32, level }
    }

    /// Adds a layer that waits for these operands.
    fn layer(&mut self, layer: Layer, operands: [Option<&Held>; OPERANDS], flops: u64) -> u32 {
        let needed =
            operands.map(|operand| operand.and_then(|held| held.counters).map_or(0, |counters| counters.needed));
        self.layers.push(Layer { needed, ..layer });
        self.flops.push(flops);
        (self.layers.len() - 1) as u32
    }

    /// Adds a layer and its tasks, by tiles of `tile` rows in `column_tiles` columns. `reads` says which rows of each operand a tile needs.
    fn push(
        &mut self,
        layer: Layer,
        operands: [Option<&Held>; OPERANDS],
        tile: usize,
        column_tiles: usize,
        reads: impl Fn(std::ops::Range<usize>) -> [std::ops::Range<usize>; OPERANDS],
    ) -> Held {
        let (rows, columns, parts) = (layer.rows as usize, layer.columns as usize, layer.parts);
        let counters = self.counters(rows, tile, column_tiles, operands);
        let flops = 2 * (rows * columns * layer.depth as usize) as u64;
        let number = self.layer(layer, operands, flops);
        for row in 0..rows.div_ceil(tile) {
            let read = reads(row * tile..((row + 1) * tile).min(rows));
            let waits: [(u32, u32); OPERANDS] =
                std::array::from_fn(|at| operands[at].map_or((0, 0), |operand| operand.waits(read[at].clone())));
            for column in 0..column_tiles {
                let merged = self.counters;
                self.counters += u32::from(parts > 1);
                for part in 0..parts {
                    let task = Task {
                        layer: number,
                        row: row as u32,
                        column: column as u32,
                        part,
                        first: waits.map(|(first, _)| first),
                        number: waits.map(|(_, number)| number),
                        signal: counters.first + row as u32,
                        merged,
                    };
                    self.tasks.push((counters.level, task));
                }
            }
        }
        Held { at: layer.result, rows, channels: columns, counters: Some(counters) }
    }
}
