//! Bars and curves of tables that are not rooflines.

use std::collections::HashMap;

use bench::ladder::columns;
use bench::record::Record;
use bench::table::{ColumnSpec, Row, Table};
use media::plot::{FONT, legend, sheet};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::chart::{Axis, BarChart, ChartBar, ChartPoint, Limit, PointChart, Series};
use crate::tables::layers::{self, ALL, sides};
use crate::tables::resnet::by;
use crate::tables::{
    attention, autoencoder, conv, fusion, gemm, multi_gpu, resnet, tensor_attention, tensor_cores, video,
};
use crate::{Error, Result};

/// As many as the curves of the largest chart, so that each curve has its own.
const COLOURS: [RGBColor; 8] = [
    RGBColor(8, 69, 148),
    RGBColor(166, 54, 3),
    RGBColor(35, 110, 20),
    RGBColor(106, 81, 163),
    RGBColor(107, 174, 36),
    RGBColor(203, 24, 29),
    RGBColor(0, 139, 139),
    RGBColor(140, 100, 20),
];

/// A ladder of steps for one problem, compared with a library.
pub(crate) struct Ladder {
    table: &'static str,
    column: ColumnSpec,
    problem: &'static str,
    library: &'static str,
    unit: &'static str,
    title: &'static str,
}

/// The product in f32.
pub(crate) const GEMM: Ladder = Ladder {
    table: "gemm",
    column: gemm::PROBLEM,
    problem: "4096³",
    library: "cuBLAS",
    unit: "% of cuBLAS in the same run",
    title: "The GEMM ladder",
};

/// The convolution in f32.
pub(crate) const CONV: Ladder = Ladder {
    table: "conv",
    column: conv::PROBLEM,
    problem: "128→128 3 @28 ×32",
    library: "cuDNN",
    unit: "% of cuDNN in the same run",
    title: "The convolution ladder",
};

/// The product on tensor cores.
pub(crate) const TENSOR_CORES: Ladder = Ladder {
    table: "tensor-cores",
    column: tensor_cores::PROBLEM,
    problem: "f16 4096³",
    library: "cuBLAS(Lt)",
    unit: "% of cuBLAS or cuBLASLt in the same run",
    title: "The ladder on tensor cores",
};

/// Attention in f16.
pub(crate) const TENSOR_ATTENTION: Ladder = Ladder {
    table: "tensor-attention",
    column: tensor_attention::PROBLEM,
    problem: "4×16×4096, 128",
    library: "SDPA, the fastest",
    unit: "% of the fastest SDPA in the same run",
    title: "The attention ladder",
};

/// A horizontal bar for each name.
pub(crate) struct Bars {
    title: String,
    unit: &'static str,
    bars: Vec<Bar>,
}

/// A bar, and behind it a pale one for its previous value.
#[derive(Clone, Debug, PartialEq)]
struct Bar {
    name: String,
    value: f64,
    before: Option<f64>,
}

/// Values over a quantity that doubles: both axes are logarithmic.
pub(crate) struct Curves {
    title: String,
    x: &'static str,
    y: &'static str,
    series: Vec<(String, Vec<(f64, f64)>)>,
    /// Meaning of a line that is not a measurement.
    limit: Option<Limit>,
}

fn nothing(name: &str) -> Error {
    Error::nothing_to_plot(name, format!("the run has no times of the table {name}"))
}

/// The rows of a table; none if the run does not have it.
fn rows(table: Option<&Table>) -> impl Iterator<Item = Row<'_>> {
    table.into_iter().flat_map(Table::iter)
}

impl Bar {
    /// Its value, and how many times as fast as before that is.
    fn label(&self) -> String {
        let decimals = if self.value < 1.0 { 3 } else { usize::from(self.value < 10.0) + 1 };
        let value = format!("{:.decimals$}", self.value);
        match self.before {
            None => value,
            Some(before) => format!("{value}, {:.2}×", before / self.value),
        }
    }
}

/// Rows of a table that are steps from one to the next.
struct Rows<'s> {
    table: &'static str,
    by: ColumnSpec,
    ms: ColumnSpec,
    steps: &'s [&'static str],
}

impl Rows<'_> {
    /// A chart of the selected rows.
    fn chart(&self, run: &Record, title: String, is_meant: impl Fn(&Row<'_>) -> Result<bool>) -> Result<Bars> {
        let mut bars: Vec<Bar> = Vec::new();
        for &step in self.steps {
            let mut found = None;
            for row in rows(run.table(self.table)) {
                if is_meant(&row)? && row.text(self.by)? == step {
                    found = row.number(self.ms)?;
                }
            }
            let value = found.ok_or_else(|| nothing(self.table))?;
            bars.push(Bar { name: step.to_owned(), value, before: bars.last().map(|bar| bar.value) });
        }
        Ok(Bars { title, unit: "milliseconds", bars })
    }
}

impl Bars {
    /// Times of each kind of layer in a pass of ResNet18 on the GPU.
    pub(super) fn of_layers(run: &Record) -> Result<Bars> {
        let mut bars = Vec::new();
        for row in rows(run.table("layers")) {
            let kind = row.text(layers::LAYER)?.strip_prefix(ALL).filter(|kind| *kind != "layers");
            if let (Some(kind), sides::FAST, Some(ms)) = (kind, row.text(layers::BY)?, row.number(layers::DEVICE_MS)?) {
                bars.push(Bar { name: kind.to_owned(), value: 1e3 * ms, before: None });
            }
        }
        if bars.is_empty() {
            Err(nothing("layers"))
        } else {
            Ok(Bars {
                title: format!("ResNet18, one photo, by kind of layer: {}", run.provenance_of("layers")),
                unit: "microseconds",
                bars,
            })
        }
    }

    /// Each step of a ladder for one problem, as a share of the library in the same run.
    pub(super) fn of_ladder(run: &Record, ladder: &Ladder) -> Result<Bars> {
        let Ladder { table, column, problem, library, unit, title } = *ladder;
        let mut times = Vec::new();
        for row in rows(run.table(table)) {
            if row.text(column)? == problem {
                let step = row.text(columns::STEP)?;
                times.extend(row.number(columns::MS)?.map(|ms| (step.to_owned(), ms)));
            }
        }
        let library = times.iter().find(|(step, _)| step == library).map(|(_, ms)| *ms);
        let library = library.ok_or_else(|| nothing(table))?;
        let steps = times.into_iter().filter(|(step, _)| step.starts_with(|first: char| first.is_ascii_digit()));
        let bar = |(name, ms): (String, f64)| Bar { name, value: 100.0 * library / ms, before: None };
        let bars: Vec<Bar> = steps.map(bar).collect();
        if bars.is_empty() {
            Err(nothing(table))
        } else {
            Ok(Bars { title: format!("{title}, {problem}: {}", run.provenance_of(table)), unit, bars })
        }
    }

    /// Time of one launch compared with several that do the same.
    pub(super) fn of_fusion(run: &Record) -> Result<Bars> {
        let mut separate = HashMap::new();
        let mut bars = Vec::new();
        for row in rows(run.table("fusion")) {
            let (work, Some(ms)) = (row.text(fusion::WORK)?, row.number(columns::MS)?) else { continue };
            match row.text(columns::STEP)? {
                fusion::SEPARATE => drop(separate.insert(work, ms)),
                fusion::FUSED => bars.extend(separate.get(work).map(|before| Bar {
                    name: work.to_owned(),
                    value: 100.0 * ms / before,
                    before: Some(100.0),
                })),
                _ => {}
            }
        }
        if bars.is_empty() {
            Err(nothing("fusion"))
        } else {
            Ok(Bars {
                title: format!("One launch in place of several: {}", run.provenance_of("fusion")),
                unit: "% of the time of separate launches",
                bars,
            })
        }
    }

    /// ResNet18's way from phase 3 to phase 4, for 1 and for 32 images: the time of each step, and of the previous one.
    pub(super) fn of_resnet18(run: &Record) -> Result<Vec<Bars>> {
        let steps = [&[by::BATCH_PHASE3, by::BATCH_PHASE3_GRAPH][..], &by::BATCH_PHASE4].concat();
        let rows = Rows { table: "resnet-batch", by: resnet::BY, ms: resnet::MS, steps: &steps };
        let chart = |batch| {
            let is_it = |row: &Row<'_>| Ok(row.number(resnet::BATCH_SIZE)? == Some(batch));
            rows.chart(run, format!("ResNet18, batch {batch}"), is_it)
        };
        [1.0, 32.0].into_iter().map(chart).collect()
    }

    /// The same of the smallest and the largest U-Net.
    pub(super) fn of_unet(run: &Record) -> Result<Vec<Bars>> {
        let steps = [&[video::versions::UNFUSED, video::versions::UNFUSED_GRAPH][..], &video::versions::FUSED].concat();
        let rows = Rows { table: "video", by: video::BY, ms: video::MS, steps: &steps };
        let chart = |configuration| {
            let is_it = |row: &Row<'_>| Ok(row.text(video::CONFIGURATION)? == configuration);
            rows.chart(run, format!("U-Net, {configuration}"), is_it)
        };
        ["tiny", video::PRODUCTION].into_iter().map(chart).collect()
    }

    /// The same of the autoencoder that fits one kernel.
    pub(super) fn of_autoencoder(run: &Record) -> Result<Vec<Bars>> {
        use autoencoder::versions::{ONE_KERNEL, PLANNED, UNFUSED, UNFUSED_GRAPH};
        let steps = [UNFUSED, UNFUSED_GRAPH, PLANNED[0], ONE_KERNEL];
        let rows = Rows { table: "autoencoder", by: autoencoder::BY, ms: columns::MS, steps: &steps };
        let chart = |batch| {
            let is_it = |row: &Row<'_>| {
                let of_batch = row.number(autoencoder::BATCH)? == Some(batch);
                Ok(of_batch && row.text(autoencoder::CONFIGURATION)? == "original")
            };
            rows.chart(run, format!("Autoencoder `original`, batch {batch}"), is_it)
        };
        [32.0, 4096.0].into_iter().map(chart).collect()
    }

    pub(super) fn chart(&self) -> BarChart {
        let chart_bar =
            |bar: &Bar| ChartBar { name: bar.name.clone(), value: bar.value, before: bar.before, label: bar.label() };
        BarChart { title: self.title.clone(), unit: self.unit, bars: self.bars.iter().map(chart_bar).collect() }
    }

    pub(super) fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> std::result::Result<(), String> {
        let fail = |error: DrawingAreaErrorKind<B::ErrorType>| error.to_string();
        let most = self.bars.iter().fold(0.0, |most: f64, bar| most.max(bar.value));
        let count = self.bars.len() as i32;
        let mut chart = sheet(area, &self.title, 120)?
            .build_cartesian_2d(0.0..most * 1.12, (0..count - 1).into_segmented())
            .map_err(fail)?;
        // The first on top.
        let name = |at: &SegmentValue<i32>| match at {
            SegmentValue::CenterOf(at) => {
                let bar = usize::try_from(count - 1 - at).ok().and_then(|at| self.bars.get(at));
                bar.map_or(String::new(), |bar| bar.name.clone())
            }
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .x_desc(self.unit)
            .label_style((FONT, 18))
            .light_line_style(WHITE)
            .y_labels(self.bars.len())
            .y_label_formatter(&name)
            .draw()
            .map_err(fail)?;
        for (at, bar) in (0..count).rev().zip(&self.bars) {
            let mut draw = |value: f64, style: ShapeStyle| {
                let corners = [(0.0, SegmentValue::Exact(at)), (value, SegmentValue::Exact(at + 1))];
                let mut rectangle = Rectangle::new(corners, style);
                rectangle.set_margin(8, 8, 0, 0);
                chart.draw_series([rectangle]).map(drop).map_err(fail)
            };
            if let Some(before) = bar.before {
                draw(before, COLOURS[0].mix(0.2).filled())?;
            }
            draw(bar.value, COLOURS[0].filled())?;
            let right = bar.before.map_or(bar.value, |before| before.max(bar.value));
            let label = Text::new(bar.label(), (right + most * 0.01, SegmentValue::CenterOf(at)), (FONT, 18));
            chart.draw_series([label]).map_err(fail)?;
        }
        Ok(())
    }
}

impl Curves {
    /// Images per second over the batch.
    pub(super) fn of_batches(run: &Record) -> Result<Curves> {
        let title = format!("ResNet18 by batch: {}", run.provenance_of("resnet-batch"));
        let mut points = Vec::new();
        for row in rows(run.table("resnet-batch")) {
            let (by, point) = (row.text(resnet::BY)?, row.number(resnet::BATCH_SIZE)?.zip(row.number(resnet::RATE)?));
            points.extend(point.map(|point| (by.to_owned(), point)));
        }
        Curves::new(title, "resnet-batch", ["images in a batch", "images per second"], points)
    }

    /// Attention's rate over the number of tokens, for each implementation and d.
    pub(super) fn of_attention(run: &Record) -> Result<Curves> {
        let title = format!("Attention, 8 heads, f32: {}", run.provenance_of("attention"));
        let mut points = Vec::new();
        for row in rows(run.table("attention")) {
            let (by, d) = (row.text(attention::BY)?, row.number(attention::CHANNELS)?);
            let point = row.number(attention::TOKENS)?.zip(row.number(columns::TFLOPS)?);
            points.extend(d.zip(point).map(|(d, point)| (format!("{by}, d = {d}"), point)));
        }
        Curves::new(title, "attention", ["tokens", "TFLOP/s"], points)
    }

    /// The smallest autoencoder's rate over the batch.
    pub(super) fn of_autoencoder_batches(run: &Record) -> Result<Curves> {
        let title = format!("Autoencoder `original` by batch: {}", run.provenance_of("autoencoder"));
        let mut points = Vec::new();
        for row in rows(run.table("autoencoder")) {
            let size = row.number(autoencoder::BATCH)?.zip(row.number(columns::MS)?);
            if let (Some((batch, ms)), "original") = (size, row.text(autoencoder::CONFIGURATION)?) {
                points.push((row.text(autoencoder::BY)?.to_owned(), (batch, batch / (ms * 1e-3))));
            }
        }
        Curves::new(title, "autoencoder", ["spectrograms in a batch", "spectrograms per second"], points)
    }

    /// Gain from more GPUs.
    pub(super) fn of_scaling(run: &Record) -> Result<Curves> {
        let title = format!("Several GPUs: {}", run.provenance_of("multi-gpu"));
        let mut points = Vec::new();
        for row in rows(run.table("multi-gpu")) {
            let point = row.number(multi_gpu::GPUS)?.zip(row.number(multi_gpu::SPEED_UP)?);
            let name = format!("{}: {}", row.text(multi_gpu::WHAT)?, row.text(multi_gpu::WAY)?);
            points.extend(point.map(|point| (name, point)));
        }
        let most = points.iter().map(|(_, (gpus, _))| *gpus).fold(1.0, f64::max);
        let curves = Curves::new(title, "multi-gpu", ["GPUs", "speed-up over one"], points)?;
        let limit = Limit {
            name: "as many times as fast as there are GPUs".to_owned(),
            points: vec![(1.0, 1.0), (most, most)],
        };
        Ok(Curves { limit: Some(limit), ..curves })
    }

    /// A curve for each name.
    fn new(title: String, table: &str, [x, y]: [&'static str; 2], points: Vec<(String, (f64, f64))>) -> Result<Curves> {
        let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for (name, point) in points {
            match series.iter_mut().find(|(other, _)| *other == name) {
                Some((_, points)) => points.push(point),
                None => series.push((name, vec![point])),
            }
        }
        if series.is_empty() { Err(nothing(table)) } else { Ok(Curves { title, x, y, series, limit: None }) }
    }

    pub(super) fn chart(&self) -> PointChart {
        let axis = |name| Axis { name, is_logarithmic: true };
        let series = self.series.iter().map(|(name, points)| Series {
            name: name.clone(),
            is_joined: true,
            points: points.iter().map(|&(x, y)| ChartPoint { x, y, label: None }).collect(),
        });
        PointChart {
            title: self.title.clone(),
            x: axis(self.x),
            y: axis(self.y),
            series: series.collect(),
            limits: self.limit.iter().cloned().collect(),
        }
    }

    pub(super) fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> std::result::Result<(), String> {
        let fail = |error: DrawingAreaErrorKind<B::ErrorType>| error.to_string();
        let all = || self.series.iter().flat_map(|(_, points)| points);
        let range = |value: fn(&(f64, f64)) -> f64, margin: f64| {
            let (low, high) = all()
                .map(value)
                .fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
            low / margin..high * margin
        };
        let mut chart = sheet(area, &self.title, 88)?
            .build_cartesian_2d(
                range(|point| point.0, 1.1).log_scale().base(2.0),
                range(|point| point.1, 1.5).log_scale(),
            )
            .map_err(fail)?;
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .label_style((FONT, 16))
            .light_line_style(WHITE)
            .x_label_formatter(&|value| format!("{value}"))
            .y_label_formatter(&|value| format!("{value}"))
            .draw()
            .map_err(fail)?;
        if let Some(limit) = &self.limit {
            chart
                .draw_series(LineSeries::new(limit.points.iter().copied(), BLACK.stroke_width(2)))
                .map_err(fail)?
                .label(&limit.name)
                .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], BLACK.stroke_width(2)));
        }
        for ((name, points), colour) in self.series.iter().zip(COLOURS.into_iter().cycle()) {
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(4))
                .map_err(fail)?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
        }
        legend(&mut chart, SeriesLabelPosition::UpperLeft)?;
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use bench::table::{Cell, DeviceKind, TableBuilder};
    use common::Device;

    use super::*;

    /// A run with the layers and the batches of a network.
    pub(crate) fn run() -> Record {
        let mut run = Record::begin(&Device::sim());
        let columns = [layers::LAYER, layers::BY, layers::DEVICE_MS];
        let mut table = TableBuilder::new("layers", DeviceKind::Gpu, &columns);
        for (layer, by, ms) in [
            ("all Conv2D", sides::FAST, 0.25),
            ("all ReLU", sides::FAST, 0.125),
            ("all layers", sides::FAST, 0.5),
            ("ReLU", sides::FAST, 9.0),
        ] {
            let row = table.row().set(layers::LAYER, layer).set(layers::BY, by);
            row.set(layers::DEVICE_MS, ms).finish("");
        }
        let row = table.row().set(layers::LAYER, "all Conv2D").set(layers::BY, sides::NAIVE_CPU);
        row.finish("the CPU has another column");
        run.push("layers", table.finish());

        let columns = [resnet::BATCH_SIZE, resnet::BY, resnet::RATE];
        let mut table = TableBuilder::new("resnet-batch", DeviceKind::Gpu, &columns);
        for (batch, by, rate) in
            [(1.0, "phase 3", Some(100.0)), (1.0, "CPU", Some(2.0)), (4.0, "phase 3", Some(300.0)), (8.0, "CPU", None)]
        {
            let row = table.row().set(resnet::BATCH_SIZE, batch).set(resnet::BY, by);
            row.set(resnet::RATE, Cell::or_absent(rate, "left out")).finish("");
        }
        run.push("resnet-batch", table.finish());
        run
    }

    #[test]
    fn a_way_has_every_step_with_the_one_before_it() {
        let columns = [resnet::BATCH_SIZE, resnet::BY, resnet::MS];
        let mut table = TableBuilder::new("resnet-batch", DeviceKind::Gpu, &columns);
        let steps = [by::BATCH_PHASE3, by::BATCH_PHASE3_GRAPH].into_iter().chain(by::BATCH_PHASE4);
        for (by, ms) in steps.clone().zip([8.0, 4.0, 2.0, 1.0, 0.5]) {
            for (batch, times) in [(1.0, 1.0), (32.0, 10.0)] {
                let row = table.row().set(resnet::BATCH_SIZE, batch).set(resnet::BY, by);
                row.set(resnet::MS, times * ms).finish("");
            }
        }
        let mut run = Record::begin(&Device::sim());
        run.push("resnet-batch", table.finish());
        let charts = Bars::of_resnet18(&run).unwrap();
        let labels = |chart: &Bars| chart.bars.iter().map(Bar::label).collect::<Vec<_>>();
        assert_eq!(labels(&charts[0]), ["8.00", "4.00, 2.00×", "2.00, 2.00×", "1.00, 2.00×", "0.500, 2.00×"]);
        assert_eq!(charts[1].bars.iter().map(|bar| bar.value).collect::<Vec<_>>(), [80.0, 40.0, 20.0, 10.0, 5.0]);
        let svg = crate::plot::svg(&run, "way-resnet18").unwrap();
        assert!(svg.contains("phase 4, tf32"));
        assert_eq!(svg.matches("</svg>").count(), 1, "two parts, one file");
        assert!(Bars::of_unet(&run).is_err());
    }

    #[test]
    fn a_ladder_is_compared_with_the_library_of_its_run() {
        let mut table = TableBuilder::new("gemm", DeviceKind::Gpu, &[gemm::PROBLEM, columns::STEP, columns::MS]);
        let rows = [
            ("4096³", "cuBLAS", 3.0),
            ("4096³", "1 slow", 12.0),
            ("4096³", "tuned", 2.0),
            ("4096³", "2 fast", 2.5),
            ("256³", "1 slow", 1.0),
        ];
        for (problem, step, ms) in rows {
            table.row().set(gemm::PROBLEM, problem).set(columns::STEP, step).set(columns::MS, ms).finish("");
        }
        let mut run = Record::begin(&Device::sim());
        assert!(Bars::of_ladder(&run, &GEMM).is_err());
        run.push("gemm", table.finish());
        let bars = Bars::of_ladder(&run, &GEMM).unwrap().chart().bars;
        let shown: Vec<_> = bars.iter().map(|bar| (&*bar.name, &*bar.label)).collect();
        assert_eq!(shown, [("1 slow", "25.0"), ("2 fast", "120.0")]);
    }

    #[test]
    fn what_is_drawn_is_what_the_tables_have() {
        let empty = Record::begin(&Device::sim());
        assert!(Bars::of_layers(&empty).is_err() && Curves::of_batches(&empty).is_err());
        let run = run();
        let bars = Bars::of_layers(&run).unwrap();
        let shown_elsewhere = bars.chart().bars;
        assert!(
            shown_elsewhere.iter().map(|bar| &bar.label).eq(bars
                .bars
                .iter()
                .map(Bar::label)
                .collect::<Vec<_>>()
                .iter())
        );
        let shown: Vec<_> = bars.bars.iter().map(|bar| (&*bar.name, bar.label())).collect();
        assert_eq!(shown, [("Conv2D", "250.0".to_owned()), ("ReLU", "125.0".to_owned())]);
        let curves = Curves::of_batches(&run).unwrap();
        assert_eq!(curves.series[0], ("phase 3".to_owned(), vec![(1.0, 100.0), (4.0, 300.0)]));
        assert_eq!(curves.series[1], ("CPU".to_owned(), vec![(1.0, 2.0)]));
    }
}
