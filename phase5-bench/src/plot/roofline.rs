//! The roofline (Williams, Waterman and Patterson, 2009): operations per second over operations per byte, measured, below what
//! the device's arithmetic and its memory allow, measured as well.

use std::ops::Range;

use bench::ladder::{Cost, columns};
use bench::record::Record;
use bench::table::{ColumnSpec, Row};
use media::plot::{FONT, legend, sheet};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::chart::{Axis, ChartPoint, Limit, PointChart, Series as ChartSeries};
use crate::limits::Limits;
use crate::tables::linear_relu::versions;
use crate::tables::{attention, conv, gemm, linear_relu, peers, tensor_attention, tensor_conv, tensor_cores};
use crate::{Error, Result};

/// One million millions.
const TERA: f64 = 1e12;
/// Along the first axis.
const INTENSITY: &str = "operations per byte, each tensor moved once";

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    /// The computed problem.
    problem: String,
    /// Operations per byte, if each tensor passes the memory once.
    intensity: f64,
    /// Operations per second.
    flops: f64,
}

/// Points of one kind.
struct Series {
    name: &'static str,
    colour: RGBColor,
    points: Vec<Point>,
}

/// Data of the plot.
pub(crate) struct Roofline {
    title: String,
    limits: Limits,
    series: Vec<Series>,
    /// Whether there are points above the roof, which is that of f32: the slope of memory then continues to them.
    has_tensor_cores: bool,
}

impl Roofline {
    pub(super) fn of(run: &Record) -> Result<Roofline> {
        let nothing = |reason: &str| Error::nothing_to_plot("roofline", reason);
        let limits = Limits::of_run(run)?
            .ok_or_else(|| nothing("the run has no limits of its device; the tables gemm and conv measure them"))?;
        let of_gemm = |steps| points(run, "gemm", gemm::PROBLEM, columns::STEP, steps, gemm::roofline_cost, rate);
        let of_conv = |steps| points(run, "conv", conv::PROBLEM, columns::STEP, steps, conv::roofline_cost, rate);
        let of_linear = |version| {
            let (size, by, cost) = (linear_relu::SIZE, linear_relu::VERSION, linear_relu::roofline_cost);
            points(run, "linear-relu", size, by, Steps::Named(version), cost, rate_of_total)
        };
        let series = [
            ("GEMM, the ladder's steps", RGBColor(158, 202, 225), of_gemm(Steps::OfTheLadder)?),
            ("GEMM, tuned", RGBColor(8, 69, 148), of_gemm(Steps::Named(peers::TUNED))?),
            ("cuBLAS", RGBColor(107, 174, 36), of_gemm(Steps::Named("cuBLAS"))?),
            ("convolution, the ladder's steps", RGBColor(253, 190, 133), of_conv(Steps::OfTheLadder)?),
            ("convolution, tuned", RGBColor(166, 54, 3), of_conv(Steps::Named(peers::TUNED))?),
            ("cuDNN", RGBColor(35, 110, 20), of_conv(Steps::Named("cuDNN"))?),
            ("Linear+ReLU v1, naive", RGBColor(203, 24, 29), of_linear(versions::NAIVE)?),
            ("Linear+ReLU v2, tuned", RGBColor(106, 81, 163), of_linear(versions::TUNED)?),
        ];
        let series: Vec<Series> = series
            .into_iter()
            .filter(|(.., points)| !points.is_empty())
            .map(|(name, colour, points)| Series { name, colour, points })
            .collect();
        if series.is_empty() {
            Err(nothing("the run has no times of gemm, conv or linear-relu"))
        } else {
            let title = format!("Roofline, f32: {}", run.provenance_of("gemm"));
            Ok(Roofline { title, limits, series, has_tensor_cores: false })
        }
    }

    /// All kernels whose operations and bytes are known: those of [`Roofline::of`], attention, and those on tensor cores.
    pub(super) fn of_all(run: &Record) -> Result<Roofline> {
        let Roofline { limits, mut series, .. } = Roofline::of(run)?;
        let all = |table, problem, cost| points(run, table, problem, columns::STEP, Steps::All, cost, rate);
        let products = all("tensor-cores", tensor_cores::PROBLEM, tensor_cores::roofline_cost)?;
        let convolutions = all("tensor-conv", tensor_conv::PROBLEM, tensor_conv::roofline_cost)?;
        let (single, mut half) = attention_points(run)?;
        half.extend(all("tensor-attention", tensor_attention::PROBLEM, tensor_attention::roofline_cost)?);
        let more = [
            ("GEMM on tensor cores, f16 to int8", RGBColor(158, 1, 66), products),
            ("convolution on tensor cores, f16", RGBColor(94, 107, 0), convolutions),
            ("attention, f32 and tf32", RGBColor(0, 114, 122), single),
            ("attention, f16", RGBColor(138, 90, 0), half),
        ];
        let more = more.into_iter().filter(|(.., points)| !points.is_empty());
        series.extend(more.map(|(name, colour, points)| Series { name, colour, points }));
        let title = format!("Roofline, all kernels: {}", run.provenance_of("gemm"));
        Ok(Roofline { title, limits, series, has_tensor_cores: true })
    }

    /// Ranges of the axes, and the corners of the roof, in operations per byte and TFLOP/s.
    fn frame(&self) -> (Range<f64>, Range<f64>, Vec<(f64, f64)>) {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let least = |value: fn(&Point) -> f64| all().map(value).fold(f64::INFINITY, f64::min);
        let most = |value: fn(&Point) -> f64| all().map(value).fold(0.0, f64::max);
        let ridge = self.limits.flops / self.limits.bandwidth;
        let x = least(|point| point.intensity).min(ridge) / 2.0..most(|point| point.intensity).max(ridge) * 2.0;
        let y = least(|point| point.flops).min(self.limits.flops / 10.0) / TERA / 2.0
            ..most(|point| point.flops).max(self.limits.flops) / TERA * 1.6;
        let memory = |intensity: f64| self.limits.bandwidth * intensity / TERA;
        let peak = self.limits.flops / TERA;
        let begin = x.start.max(y.start / memory(1.0));
        let mut roof = vec![(begin, memory(begin)), (ridge, peak), (x.end, peak)];
        if self.has_tensor_cores {
            // One line: along the peak to the ridge, down the slope of memory, and up it again as far as there is room.
            let end = x.end.min(y.end / memory(1.0));
            roof = vec![(x.end, peak), (ridge, peak), (begin, memory(begin)), (end, memory(end))];
        }
        (x, y, roof)
    }

    /// Description of the roof.
    fn roof_says(&self) -> String {
        format!(
            "measured: {:.2} TB/s (copy), {:.1} TFLOP/s (multiply-adds{})",
            self.limits.bandwidth / TERA,
            self.limits.flops / TERA,
            if self.has_tensor_cores { " in f32" } else { "" }
        )
    }

    pub(super) fn chart(&self) -> PointChart {
        let point = |point: &Point| ChartPoint {
            x: point.intensity,
            y: point.flops / TERA,
            label: Some(point.problem.clone()),
        };
        let series = self.series.iter().map(|Series { name, points, .. }| ChartSeries {
            name: (*name).to_owned(),
            is_joined: false,
            points: points.iter().map(point).collect(),
        });
        PointChart {
            title: self.title.clone(),
            x: Axis { name: INTENSITY, is_logarithmic: true },
            y: Axis { name: "TFLOP/s", is_logarithmic: true },
            series: series.collect(),
            limits: vec![Limit { name: self.roof_says(), points: self.frame().2 }],
        }
    }

    pub(super) fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> std::result::Result<(), String> {
        let fail = |error: DrawingAreaErrorKind<B::ErrorType>| error.to_string();
        let (x, y, roof) = self.frame();
        let mut chart = sheet(area, &self.title, 72)?.build_cartesian_2d(x.log_scale(), y.log_scale()).map_err(fail)?;
        chart
            .configure_mesh()
            .x_desc(INTENSITY)
            .y_desc("TFLOP/s")
            .label_style((FONT, 16))
            .light_line_style(WHITE)
            .x_label_formatter(&label)
            .y_label_formatter(&label)
            .draw()
            .map_err(fail)?;

        chart
            .draw_series(LineSeries::new(roof, BLACK.stroke_width(2)))
            .map_err(fail)?
            .label(self.roof_says())
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], BLACK.stroke_width(2)));
        for Series { name, colour, points } in &self.series {
            let colour = *colour;
            let dots =
                points.iter().map(|point| Circle::new((point.intensity, point.flops / TERA), 4, colour.filled()));
            chart
                .draw_series(dots)
                .map_err(fail)?
                .label(*name)
                .legend(move |(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
        }
        legend(&mut chart, SeriesLabelPosition::LowerRight)?;
        Ok(())
    }
}

/// A value without superfluous digits of a power of ten.
fn label(value: &f64) -> String {
    format!("{value}")
}

/// Which rows of a table are points of a series.
#[derive(Clone, Copy)]
enum Steps {
    /// All of them.
    All,
    /// Steps of the ladder, whose names begin with their numbers.
    OfTheLadder,
    /// The one of this name.
    Named(&'static str),
}

impl Steps {
    fn contain(self, step: &str) -> bool {
        match self {
            Steps::All => true,
            Steps::OfTheLadder => step.starts_with(|first: char| first.is_ascii_digit()),
            Steps::Named(name) => step == name,
        }
    }
}

/// Operations per second of a row, if it has a number.
type Rate = fn(Row<'_>, Cost) -> Result<Option<f64>>;

fn rate(row: Row<'_>, _: Cost) -> Result<Option<f64>> {
    Ok(row.number(columns::TFLOPS)?.map(|tera| tera * 1e12))
}

fn rate_of_total(row: Row<'_>, cost: Cost) -> Result<Option<f64>> {
    Ok(row.number(linear_relu::TOTAL)?.map(|ms| cost.flops / (ms * 1e-3)))
}

/// The measurements of some steps of a table; `cost` returns the cost of a problem by name.
fn points(
    run: &Record,
    table: &str,
    problem: ColumnSpec,
    step: ColumnSpec,
    steps: Steps,
    cost: fn(&str) -> Option<Cost>,
    rate: Rate,
) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for row in run.table(table).into_iter().flat_map(|table| table.iter()) {
        let is_meant = steps.contain(row.text(step)?);
        let row_problem = row.text(problem)?;
        if let Some(cost) = cost(row_problem).filter(|_| is_meant) {
            let flops = rate(row, cost)?;
            points.extend(flops.map(|flops| Point {
                problem: row_problem.to_owned(),
                intensity: cost.flops / cost.bytes,
                flops,
            }));
        }
    }
    Ok(points)
}

/// Attention without scores in memory: of f32, TF32 among it, and of f16.
fn attention_points(run: &Record) -> Result<(Vec<Point>, Vec<Point>)> {
    let (mut single, mut half) = (Vec::new(), Vec::new());
    for row in run.table("attention").into_iter().flat_map(|table| table.iter()) {
        let size = row.number(attention::TOKENS)?.zip(row.number(attention::CHANNELS)?);
        let (Some((tokens, d)), Some(rate)) = (size, row.number(columns::TFLOPS)?) else { continue };
        let is_half = attention::is_half(row.text(attention::BY)?);
        let Cost { flops, bytes, .. } = attention::roofline_cost(tokens, d, is_half);
        let point = Point { problem: format!("{tokens} × {d}"), intensity: flops / bytes, flops: rate * TERA };
        if is_half { &mut half } else { &mut single }.push(point);
    }
    Ok((single, half))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use bench::table::{Cell, DeviceKind, TableBuilder};
    use common::Device;

    use crate::limits::LIMITS;

    pub(crate) fn run() -> Record {
        let mut run = Record::begin(&Device::sim());
        let columns = [gemm::PROBLEM, columns::STEP, columns::TFLOPS];
        let mut table = TableBuilder::new("gemm", DeviceKind::Gpu, &columns);
        for (size, step, rate) in [
            ("256³", "1 uncoalesced", Some(0.2)),
            ("4096³", "tuned", Some(52.0)),
            ("4096³", "cuBLAS", Some(26.0)),
            ("1³", "tuned", Some(1.0)),
            ("256³", "tuned", None),
        ] {
            let row = table.row().set(gemm::PROBLEM, size).set(super::columns::STEP, step);
            row.set(super::columns::TFLOPS, Cell::or_absent(rate, "not measured")).finish("");
        }
        run.push("gemm", table.finish());
        let columns = [linear_relu::SIZE, linear_relu::VERSION, linear_relu::TOTAL];
        let mut table = TableBuilder::new("linear-relu", DeviceKind::Gpu, &columns);
        let row = table.row().set(linear_relu::SIZE, "1024×784→2048").set(linear_relu::VERSION, versions::NAIVE);
        row.set(linear_relu::TOTAL, 1.0).finish("");
        run.push("linear-relu", table.finish());
        run
    }

    #[test]
    fn points_are_where_they_were_measured() {
        let mut run = run();
        assert!(Roofline::of(&run).is_err(), "no limits");
        run.push(LIMITS, Limits { flops: 60e12, bandwidth: 4e12 }.table());
        let roofline = Roofline::of(&run).unwrap();
        let of = |name: &str| &roofline.series.iter().find(|series| series.name == name).unwrap().points;
        // 2·n³ operations over 3·n² values of 4 bytes.
        let intensity = |n: f64| 2.0 * n / 12.0;
        assert_eq!(
            *of("GEMM, tuned"),
            [Point { problem: "4096³".to_owned(), intensity: intensity(4096.0), flops: 52e12 }]
        );
        let first = Point { problem: "256³".to_owned(), intensity: intensity(256.0), flops: 0.2e12 };
        assert_eq!(*of("GEMM, the ladder's steps"), [first]);
        let chart = roofline.chart();
        let shown = chart.series.iter().flat_map(|series| &series.points).map(|point| (point.x, 1e12 * point.y));
        assert!(shown.eq(
            roofline.series.iter().flat_map(|s| &s.points).map(|point| (point.intensity, 1e12 * (point.flops / TERA)))
        ));
        let flops = 2.0 * 1024.0 * 784.0 * 2048.0;
        assert_eq!(of("Linear+ReLU v1, naive")[0].flops, flops * 1e3);
    }
}
