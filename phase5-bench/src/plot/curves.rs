//! Bars and curves of tables that are no rooflines.

use common::record::Record;
use common::table::{Cell, Table};
use media::plot::{FONT, legend, sheet};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::tables::layers::{ALL, sides};
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

/// The cells of some columns of each row that has numbers in those that must have.
fn cells<'a, const N: usize>(table: Option<&'a Table>, columns: [&str; N]) -> Vec<[&'a Cell; N]> {
    let Some(table) = table else { return Vec::new() };
    let at = columns.map(|column| table.columns.iter().position(|other| other.heading == column));
    let row = |row: &'a Vec<Cell>| {
        let mut cells = [&row[0]; N];
        for (cell, at) in cells.iter_mut().zip(at) {
            *cell = row.get(at?)?;
        }
        Some(cells)
    };
    table.rows.iter().filter_map(row).collect()
}

impl Bars {
    /// What layers of each kind take of a pass of ResNet18 on the GPU.
    pub fn of_layers(run: &Record) -> Result<Bars> {
        let bar = |row: [&Cell; 3]| match row {
            [Cell::Text(layer), Cell::Text(by), Cell::Number(ms)] if by == sides::FAST => {
                let kind = layer.strip_prefix(ALL).filter(|kind| *kind != "layers")?;
                Some((kind.to_owned(), 1e3 * ms))
            }
            _ => None,
        };
        let rows = cells(run.table("layers"), ["layer", "by", "device ms"]);
        let bars: Vec<(String, f64)> = rows.into_iter().filter_map(bar).collect();
        match bars.is_empty() {
            true => Err(nothing("layers")),
            false => Ok(Bars {
                title: format!("ResNet18, one photo, by kind of layer: {}", run.provenance()),
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
        let title = format!("ResNet18 by batch: {}", run.provenance());
        let rows = cells(run.table("resnet-batch"), ["by", "batch", "images/s"]);
        let name = |by: &Cell| if let Cell::Text(by) = by { Some(by.clone()) } else { None };
        Curves::new(
            title,
            "resnet-batch",
            ["images in a batch", "images a second"],
            rows.into_iter().map(|[by, x, y]| (name(by), x, y)),
        )
    }

    /// Attention's rate over the number of tokens, for each implementation and d.
    pub fn of_attention(run: &Record) -> Result<Curves> {
        let title = format!("Attention, 8 heads, f32: {}", run.provenance());
        let rows = cells(run.table("attention"), ["by", "d", "tokens", "TFLOP/s"]);
        let name = |by: &Cell, d: &Cell| match (by, d) {
            (Cell::Text(by), Cell::Number(d)) => Some(format!("{by}, d = {d}")),
            _ => None,
        };
        Curves::new(
            title,
            "attention",
            ["tokens", "TFLOP/s"],
            rows.into_iter().map(|[by, d, x, y]| (name(by, d), x, y)),
        )
    }

    /// A curve for each name, of the rows whose two values are numbers.
    fn new<'a>(
        title: String,
        table: &str,
        [x, y]: [&'static str; 2],
        rows: impl Iterator<Item = (Option<String>, &'a Cell, &'a Cell)>,
    ) -> Result<Curves> {
        let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for (name, x, y) in rows {
            let (Some(name), Cell::Number(x), Cell::Number(y)) = (name, x, y) else { continue };
            match series.iter_mut().find(|(other, _)| *other == name) {
                Some((_, points)) => points.push((*x, *y)),
                None => series.push((name, vec![(*x, *y)])),
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
    use common::table::Column;

    use super::*;

    /// A run with the layers and the batches of a network.
    pub fn run() -> Record {
        let mut run = Record::begin(&Device::sim());
        let columns = [Column::text("layer"), Column::text("by"), Column::number("device ms", 4)];
        let mut layers = Table::new("layers", columns);
        for (layer, by, ms) in [
            ("all Conv2D", sides::FAST, 0.25),
            ("all ReLU", sides::FAST, 0.125),
            ("all layers", sides::FAST, 0.5),
            ("ReLU", sides::FAST, 9.0),
        ] {
            layers.row([layer.into(), by.into(), ms.into()]);
        }
        layers.row(["all Conv2D".into(), sides::NAIVE_CPU.into(), Cell::absent("the CPU has another column")]);
        run.push("layers", layers);
        let columns = [Column::number("batch", 0), Column::text("by"), Column::number("images/s", 0)];
        let mut batches = Table::new("resnet-batch", columns);
        for (batch, by, rate) in [(1.0, "phase 3", 100.0), (1.0, "CPU", 2.0), (4.0, "phase 3", 300.0)] {
            batches.row([batch.into(), by.into(), rate.into()]);
        }
        batches.row([8.0.into(), "CPU".into(), Cell::absent("left out")]);
        run.push("resnet-batch", batches);
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
