//! Cost of a rule in quality, over its gain in speed: a point for each row of the table `temporal`.

use bench::record::Record;
use media::plot::{FONT, legend, sheet};
use phase4_fusion::temporal::sampler::Rule;
use phase4_fusion::temporal::table::{FPS, PRECISION, PSNR, RULE};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::chart::{Axis, ChartPoint, Limit, PointChart, Series};
use crate::tables::temporal::REAL_TIME;
use crate::{Error, Result};

/// By precision.
const COLOURS: [RGBColor; 3] = [RGBColor(8, 69, 148), RGBColor(166, 54, 3), RGBColor(35, 110, 20)];

/// A combination of precision and rule.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    fps: f64,
    /// `None` for the whole computation in f32, the reference of the others.
    psnr: Option<f64>,
    rule: String,
}

/// Data of the plot.
pub(crate) struct Quality {
    title: String,
    /// By precision, in the order of the table.
    series: Vec<(String, Vec<Point>)>,
}

impl Quality {
    pub(super) fn of(run: &Record) -> Result<Quality> {
        let mut series: Vec<(String, Vec<Point>)> = Vec::new();
        for row in run.table("temporal").into_iter().flat_map(|table| table.iter()) {
            let Some(fps) = row.number(FPS)? else { continue };
            let point = Point { fps, psnr: row.number(PSNR)?, rule: row.text(RULE)?.to_owned() };
            let precision = row.text(PRECISION)?;
            match series.iter_mut().find(|(name, _)| name == precision) {
                Some((_, points)) => points.push(point),
                None => series.push((precision.to_owned(), vec![point])),
            }
        }
        if !series.iter().flat_map(|(_, points)| points).any(|point| point.psnr.is_some()) {
            return Err(Error::nothing_to_plot("temporal", "the run has no times of the table temporal"));
        }
        Ok(Quality { title: format!("Quality over speed: {}", run.provenance_of("temporal")), series })
    }

    /// The minimum and the maximum quality, and the height of the whole in f32: above all others.
    fn heights(&self) -> (f64, f64, f64) {
        let measured = self.series.iter().flat_map(|(_, points)| points).filter_map(|point| point.psnr);
        let span = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
        let (worst, best) = measured.fold((f64::INFINITY, f64::NEG_INFINITY), span);
        (worst, best, best + (best - worst).max(1.0) * 0.15)
    }

    pub(super) fn chart(&self) -> PointChart {
        let (worst, _, top) = self.heights();
        let point = |point: &Point| {
            let compared = if point.psnr.is_none() { ", the reference" } else { "" };
            ChartPoint { x: point.fps, y: point.psnr.unwrap_or(top), label: Some(format!("{}{compared}", point.rule)) }
        };
        let series = self.series.iter().map(|(name, points)| Series {
            name: name.clone(),
            is_joined: false,
            points: points.iter().map(point).collect(),
        });
        let limit = Limit {
            name: format!("{REAL_TIME} frames per second"),
            points: vec![(REAL_TIME, worst), (REAL_TIME, top)],
        };
        PointChart {
            title: self.title.clone(),
            x: Axis { name: "frames per second", is_logarithmic: true },
            y: Axis { name: "PSNR to the whole computation in f32, dB", is_logarithmic: false },
            series: series.collect(),
            limits: vec![limit],
        }
    }

    pub(super) fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> std::result::Result<(), String> {
        let fail = |error: DrawingAreaErrorKind<B::ErrorType>| error.to_string();
        let points = || self.series.iter().flat_map(|(_, points)| points);
        let span = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
        };
        let (slowest, fastest) = span(&mut points().map(|point| point.fps).chain([REAL_TIME]));
        let (worst, _, top) = self.heights();
        let (x, y) = (slowest / 1.2..fastest * 1.6, worst - (top - worst) * 0.08..top + (top - worst) * 0.06);
        let mut chart =
            sheet(area, &self.title, 72)?.build_cartesian_2d(x.log_scale().base(2.0), y.clone()).map_err(fail)?;
        chart
            .configure_mesh()
            .x_desc("frames per second")
            .y_desc("PSNR to the whole computation in f32, dB")
            .label_style((FONT, 16))
            .light_line_style(WHITE)
            .x_label_formatter(&|value| format!("{value:.0}"))
            .y_label_formatter(&|value| format!("{value:.0}"))
            .draw()
            .map_err(fail)?;
        let line = [(REAL_TIME, y.start), (REAL_TIME, y.end)];
        chart
            .draw_series(LineSeries::new(line, BLACK.stroke_width(2)))
            .map_err(fail)?
            .label(format!("{REAL_TIME} frames per second"))
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], BLACK.stroke_width(2)));
        for ((name, points), colour) in self.series.iter().zip(COLOURS.into_iter().cycle()) {
            let place = |point: &Point| (point.fps, point.psnr.unwrap_or(top));
            let dots = points.iter().map(|point| Circle::new(place(point), 5, colour.filled()));
            chart
                .draw_series(dots)
                .map_err(fail)?
                .label(name)
                .legend(move |(x, y)| Circle::new((x + 8, y), 5, colour.filled()));
            let label = |point: &Point| {
                let whole = Rule::default().to_string();
                let compared = if point.psnr.is_none() { ", what others are compared with" } else { "" };
                let text = if point.rule == whole { format!("{whole}{compared}") } else { point.rule.clone() };
                let style = (FONT, 13).into_text_style(area).color(&colour);
                EmptyElement::at(place(point)) + Text::new(text, (8, -6), style)
            };
            chart.draw_series(points.iter().map(label)).map_err(fail)?;
        }
        legend(&mut chart, SeriesLabelPosition::UpperRight)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bench::table::{Cell, DeviceKind, TableBuilder};
    use common::Device;

    use super::*;

    #[test]
    fn each_combination_is_a_point_and_real_time_a_line() {
        let mut run = Record::begin(&Device::sim());
        assert!(Quality::of(&run).is_err());
        let columns = [PRECISION, RULE, FPS, PSNR];
        let mut table = TableBuilder::new("temporal", DeviceKind::Gpu, &columns);
        for (precision, rule, fps, psnr) in [
            ("f32", "whole", 4.0, None),
            ("f32", "L1 1/2 steps", 6.0, Some(30.0)),
            ("f16", "whole", 20.0, Some(40.0)),
            ("f16", "L1 1/2 steps", 35.0, Some(28.0)),
        ] {
            let row = table.row().set(PRECISION, precision).set(RULE, rule).set(FPS, fps);
            row.set(PSNR, Cell::or_absent(psnr, "the same values")).complete();
        }
        run.push("temporal", table.finish());
        let plot = Quality::of(&run).unwrap();
        assert_eq!(
            plot.series.iter().map(|(name, points)| (&**name, points.len())).collect::<Vec<_>>(),
            [("f32", 2), ("f16", 2)]
        );
        assert_eq!(plot.series[1].1[1], Point { fps: 35.0, psnr: Some(28.0), rule: "L1 1/2 steps".to_owned() });
        let svg = crate::plot::svg(&run, "temporal").unwrap();
        for text in ["30 frames per second", "L1 1/2 steps", "what others are compared with", "PSNR"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        // A dot for each, and one per precision in the legend.
        assert_eq!(svg.matches("<circle").count(), 4 + 2);
    }
}
