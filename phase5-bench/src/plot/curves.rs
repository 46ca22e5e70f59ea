//! Bars and curves of tables that are no rooflines.

use common::ladder::columns;
use common::record::Record;
use common::table::{Row, Table};
use media::plot::{FONT, legend, sheet};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::tables::layers::{self, ALL, sides};
use crate::tables::{attention, resnet};
use crate::{Error, Result};

const COLOURS: [RGBColor; 6] = [
    RGBColor(8, 69, 148),
    RGBColor(166, 54, 3),
    RGBColor(35, 110, 20),
    RGBColor(106, 81, 163),
    RGBColor(107, 174, 36),
    RGBColor(203, 24, 29),
];

/// A horizontal bar for each name.
pub(crate) struct Bars {
    title: String,
    unit: &'static str,
    bars: Vec<(String, f64)>,
}

/// Values over a quantity that doubles: both axes are logarithmic.
pub(crate) struct Curves {
    title: String,
    x: &'static str,
    y: &'static str,
    series: Vec<(String, Vec<(f64, f64)>)>,
}

fn nothing(name: &str) -> Error {
    Error::nothing_to_plot(name, format!("the run has no times of the table {name}"))
}

/// The rows of a table; none if the run does not have it.
fn rows(table: Option<&Table>) -> impl Iterator<Item = Row<'_>> {
    table.into_iter().flat_map(Table::iter)
}

impl Bars {
    /// What layers of each kind take of a pass of ResNet18 on the GPU.
    pub fn of_layers(run: &Record) -> Result<Bars> {
        let mut bars = Vec::new();
        for row in rows(run.table("layers")) {
            let kind = row.text(layers::LAYER)?.strip_prefix(ALL).filter(|kind| *kind != "layers");
            if let (Some(kind), sides::FAST, Some(ms)) = (kind, row.text(layers::BY)?, row.number(layers::DEVICE_MS)?) {
                bars.push((kind.to_owned(), 1e3 * ms));
            }
        }
        match bars.is_empty() {
            true => Err(nothing("layers")),
            false => Ok(Bars {
                title: format!("ResNet18, one photo, by kind of layer: {}", run.provenance_of("layers")),
                unit: "microseconds",
                bars,
            }),
        }
    }

    pub fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> std::result::Result<(), String> {
        let fail = |error: DrawingAreaErrorKind<B::ErrorType>| error.to_string();
        let most = self.bars.iter().fold(0.0, |most: f64, (_, value)| most.max(*value));
        let count = self.bars.len() as i32;
        let mut chart = sheet(area, &self.title, 120)?
            .build_cartesian_2d(0.0..most * 1.12, (0..count - 1).into_segmented())
            .map_err(fail)?;
        // The first on top.
        let name = |at: &SegmentValue<i32>| match at {
            SegmentValue::CenterOf(at) => {
                let bar = usize::try_from(count - 1 - at).ok().and_then(|at| self.bars.get(at));
                bar.map_or(String::new(), |(name, _)| name.clone())
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
        for (at, (_, value)) in (0..count).rev().zip(&self.bars) {
            let corners = [(0.0, SegmentValue::Exact(at)), (*value, SegmentValue::Exact(at + 1))];
            let mut bar = Rectangle::new(corners, COLOURS[0].filled());
            bar.set_margin(8, 8, 0, 0);
            let label =
                Text::new(format!("{value:.1}"), (*value + most * 0.01, SegmentValue::CenterOf(at)), (FONT, 18));
            chart.draw_series([bar]).map_err(fail)?;
            chart.draw_series([label]).map_err(fail)?;
        }
        area.present().map_err(fail)
    }
}

impl Curves {
    /// Images a second over the batch.
    pub fn of_batches(run: &Record) -> Result<Curves> {
        let title = format!("ResNet18 by batch: {}", run.provenance_of("resnet-batch"));
        let mut points = Vec::new();
        for row in rows(run.table("resnet-batch")) {
            let (by, point) = (row.text(resnet::BY)?, row.number(resnet::BATCH_SIZE)?.zip(row.number(resnet::RATE)?));
            points.extend(point.map(|point| (by.to_owned(), point)));
        }
        Curves::new(title, "resnet-batch", ["images in a batch", "images per second"], points)
    }

    /// Attention's rate over the number of tokens, for each implementation and d.
    pub fn of_attention(run: &Record) -> Result<Curves> {
        let title = format!("Attention, 8 heads, f32: {}", run.provenance_of("attention"));
        let mut points = Vec::new();
        for row in rows(run.table("attention")) {
            let (by, d) = (row.text(attention::BY)?, row.number(attention::CHANNELS)?);
            let point = row.number(attention::TOKENS)?.zip(row.number(columns::TFLOPS)?);
            points.extend(d.zip(point).map(|(d, point)| (format!("{by}, d = {d}"), point)));
        }
        Curves::new(title, "attention", ["tokens", "TFLOP/s"], points)
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
        match series.is_empty() {
            true => Err(nothing(table)),
            false => Ok(Curves { title, x, y, series }),
        }
    }

    pub fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> std::result::Result<(), String> {
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
        for ((name, points), colour) in self.series.iter().zip(COLOURS.into_iter().cycle()) {
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(4))
                .map_err(fail)?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
        }
        legend(&mut chart, SeriesLabelPosition::UpperLeft)?;
        area.present().map_err(fail)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use common::Device;
    use common::table::{Cell, DeviceKind, TableBuilder};

    use super::*;

    /// A run with the layers and the batches of a network.
    pub fn run() -> Record {
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
    fn what_is_drawn_is_what_the_tables_have() {
        let empty = Record::begin(&Device::sim());
        assert!(Bars::of_layers(&empty).is_err() && Curves::of_batches(&empty).is_err());
        let run = run();
        let bars = Bars::of_layers(&run).unwrap();
        assert_eq!(bars.bars, [("Conv2D".to_owned(), 250.0), ("ReLU".to_owned(), 125.0)]);
        let curves = Curves::of_batches(&run).unwrap();
        assert_eq!(curves.series[0], ("phase 3".to_owned(), vec![(1.0, 100.0), (4.0, 300.0)]));
        assert_eq!(curves.series[1], ("CPU".to_owned(), vec![(1.0, 2.0)]));
    }
}
