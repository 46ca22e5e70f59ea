//! Charts for a page: as narrow as a phone, and in the page's own colours.
//!
//! `plotters` draws them with the colours of `INK` and `HUES`. An SVG that stands in a page has its colours as attributes,
//! which any rule of a style sheet overrides: [`palette`] has a rule for each, so that they follow the page from light to dark.
//! Series are told apart by their marks, too. Keys and titles are for the page to set as text: they wrap, a drawing does not.

use std::fmt::Write;

use media::plot::{FONT, svg};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::chart::{BarChart, Chart, PointChart, Series};
use crate::{Error, Result};

/// The width of a chart, about as many pixels as a phone has.
pub const WIDTH: u32 = 400;
/// The size of its letters.
const LETTER: f64 = 11.5;
/// With more points than this there are no labels.
const CLOUD: usize = 40;
/// Lines and letters.
const INK: RGBColor = BLACK;

/// The colours of series, on a light page and on a dark one. Each has a contrast of 3 : 1 at least to its page.
static HUES: [(RGBColor, &str); 8] = [
    (RGBColor(0x0B, 0x5C, 0xAD), "#6cb2ff"),
    (RGBColor(0xB3, 0x43, 0x0F), "#ffa066"),
    (RGBColor(0x1F, 0x7A, 0x33), "#6fd08c"),
    (RGBColor(0x7A, 0x4F, 0xB5), "#c6a5ff"),
    (RGBColor(0xB0, 0x20, 0x6B), "#ff8ac0"),
    (RGBColor(0x5E, 0x6B, 0x00), "#c8d44a"),
    (RGBColor(0x00, 0x72, 0x7A), "#4fd3dc"),
    (RGBColor(0x8A, 0x5A, 0x00), "#e8b84a"),
];

/// A chart in a page.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Above it, as text.
    pub title: String,
    /// The drawing, without title and key.
    pub svg: String,
    /// Meaning of its marks; empty if there is nothing to tell apart.
    pub key: Vec<KeyEntry>,
    /// Text alternative for readers who do not see it.
    pub says: String,
}

/// A line of a chart's key.
#[derive(Clone, Debug)]
pub struct KeyEntry {
    /// A drawing of the mark.
    pub svg: String,
    /// Series that it stands for.
    pub name: String,
}

/// The rules that give a chart the colours of the page: `--ink` is that of its text.
pub fn palette() -> String {
    let css = |colour: RGBColor| format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
    let mut light = String::new();
    let mut dark = String::new();
    let mut rules = String::new();
    let mut rule = |colour: RGBColor, variable: &str| {
        let colour = css(colour);
        let _ = write!(
            rules,
            ".chart [fill=\"{colour}\" i]{{fill:var({variable})}}.chart [stroke=\"{colour}\" i]{{stroke:var({variable})}}"
        );
    };
    rule(INK, "--ink");
    for (at, (on_light, on_dark)) in HUES.into_iter().enumerate() {
        let variable = format!("--hue-{at}");
        rule(on_light, &variable);
        let _ = write!(light, "{variable}:{};", css(on_light));
        let _ = write!(dark, "{variable}:{on_dark};");
    }
    format!(":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}{rules}")
}

/// Figures of a plot, one below the other.
///
/// # Errors
/// [`Error::Plot`] if it cannot be drawn.
pub fn figures(name: &str, chart: &Chart) -> Result<Vec<Figure>> {
    let figures: Result<Vec<Figure>, String> = match chart {
        Chart::Bars(charts) => charts.iter().map(bars).collect(),
        Chart::Points(chart) => facets(chart).iter().map(points).collect(),
    };
    figures.map_err(|reason| Error::nothing_to_plot(name, reason))
}

/// The last part of a name, if it states a size: `d = 40`.
fn facet(series: &Series) -> Option<&str> {
    series.name.rsplit_once(", ").map(|(_, size)| size).filter(|size| size.contains(" = "))
}

/// The parts of a chart whose series end with different sizes (`naive, d = 40`); only if there are more than ten curves.
fn facets(chart: &PointChart) -> Vec<PointChart> {
    let mut facets: Vec<&str> = Vec::new();
    for series in &chart.series {
        match facet(series) {
            Some(size) if facets.contains(&size) => {}
            Some(size) => facets.push(size),
            None => return vec![chart.clone()],
        }
    }
    let part = |size: &&str| PointChart {
        title: format!("{}, {size}", chart.title),
        series: chart
            .series
            .iter()
            .filter(|series| facet(series) == Some(*size))
            .map(|series| Series {
                name: series.name.strip_suffix(&format!(", {size}")).unwrap_or(&series.name).to_owned(),
                ..series.clone()
            })
            .collect(),
        ..chart.clone()
    };
    facets.iter().map(part).collect()
}

fn text_error<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> String {
    error.to_string()
}

fn letters(colour: &RGBColor) -> TextStyle<'_> {
    TextStyle::from((FONT, LETTER)).color(colour)
}

/// Width of a text.
fn width(text: &str) -> f64 {
    text.chars().count() as f64 * 0.58 * LETTER
}

/// A value of an axis, without superfluous digits of a power of ten.
fn tick(value: &f64) -> String {
    let short = |value: f64| {
        let text = format!("{value:.4}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match value.abs() {
        1e6.. => format!("{} M", short(value / 1e6)),
        1e4.. if value % 1e3 == 0.0 => format!("{} k", short(value / 1e3)),
        0.0 => "0".to_owned(),
        ..1e-3 => format!("{value:.0e}"),
        _ => short(*value),
    }
}

/// Each bar with its name above it; its previous value as a pale bar.
fn bars(chart: &BarChart) -> Result<Figure, String> {
    /// Height of a name and its bar, then of the axis below.
    const ROW: f64 = 36.0;
    const AXIS: u32 = 36;
    let count = chart.bars.len() as f64;
    let longest = |bar: &super::chart::ChartBar| bar.value.max(bar.before.unwrap_or(0.0));
    let most = chart.bars.iter().map(longest).fold(f64::MIN_POSITIVE, f64::max);
    // Room for the longest label behind the longest bar.
    let labels = chart.bars.iter().map(|bar| width(&bar.label)).fold(0.0, f64::max) + 10.0;
    let right = most * f64::from(WIDTH) / (f64::from(WIDTH) - labels);
    let height = (ROW * count) as u32 + AXIS + 6;
    let svg = svg((WIDTH, height), |area| {
        let mut plot = ChartBuilder::on(area)
            .margin_left(2)
            .margin_right(2)
            .margin_top(4)
            .x_label_area_size(AXIS)
            .build_cartesian_2d(0.0..right, 0.0..count)
            .map_err(text_error)?;
        plot.configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .x_labels(5)
            .x_desc(chart.unit)
            .label_style(letters(&INK))
            .axis_desc_style(letters(&INK))
            .axis_style(INK.mix(0.4))
            .bold_line_style(INK.mix(0.15))
            .light_line_style(TRANSPARENT)
            .x_label_formatter(&tick)
            .draw()
            .map_err(text_error)?;
        for (at, bar) in chart.bars.iter().enumerate() {
            let top = count - at as f64;
            let mut draw = |value: f64, style: ShapeStyle| {
                let corners = [(0.0, top - 0.46), (value, top - 0.86)];
                plot.draw_series([Rectangle::new(corners, style)]).map(drop).map_err(text_error)
            };
            if let Some(before) = bar.before {
                draw(before, HUES[0].0.mix(0.25).filled())?;
            }
            draw(bar.value, HUES[0].0.filled())?;
            let end = longest(bar) + right * 5.0 / f64::from(WIDTH);
            let name = Text::new(bar.name.clone(), (right * 0.005, top - 0.06), letters(&INK));
            let label = Text::new(bar.label.clone(), (end, top - 0.5), letters(&INK));
            plot.draw_series([name, label]).map_err(text_error)?;
        }
        Ok(())
    })?;
    let said: Vec<String> = chart.bars.iter().map(|bar| format!("{}: {}", bar.name, bar.label)).collect();
    let says = format!("Bars, {}. {}.", chart.unit, said.join("; "));
    Ok(Figure { title: chart.title.clone(), svg, key: Vec::new(), says })
}

/// The mark of a series around a place in pixels: a disc, a square, triangles up and down, a diamond, a cross.
fn mark((x, y): (i32, i32), series: usize) -> Polygon<(i32, i32)> {
    const MARKS: [&[(i32, i32)]; 6] = [
        &[(-4, -1), (-3, -3), (-1, -4), (1, -4), (3, -3), (4, -1), (4, 1), (3, 3), (1, 4), (-1, 4), (-3, 3), (-4, 1)],
        &[(-3, -3), (3, -3), (3, 3), (-3, 3)],
        &[(0, -5), (5, 4), (-5, 4)],
        &[(0, -5), (5, 0), (0, 5), (-5, 0)],
        &[(-1, -1), (-1, -5), (1, -5), (1, -1), (5, -1), (5, 1), (1, 1), (1, 5), (-1, 5), (-1, 1), (-5, 1), (-5, -1)],
        &[(0, 5), (5, -4), (-5, -4)],
    ];
    let corners: Vec<(i32, i32)> =
        MARKS[series % MARKS.len()].iter().map(|(right, down)| (x + right, y + down)).collect();
    Polygon::new(corners, hue(series).filled())
}

fn hue(series: usize) -> &'static RGBColor {
    &HUES[series % HUES.len()].0
}

/// The minimum and the maximum, with some margin.
fn range(values: impl Iterator<Item = f64>, is_logarithmic: bool) -> std::ops::Range<f64> {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if is_logarithmic {
        let margin = (high / low).powf(0.05).max(1.05);
        low / margin..high * margin
    } else {
        let margin = ((high - low) * 0.06).max(1e-9);
        low - margin..high + margin
    }
}

/// Base of an axis's ticks: 2 if all values are powers of 2, or if powers of 10 are too few.
fn base(range: &std::ops::Range<f64>, mut values: impl Iterator<Item = f64>) -> f64 {
    const DECADES: f64 = 2.0;
    let is_short = (range.end / range.start).log10() < DECADES;
    if is_short || values.all(|value| value.log2().fract() == 0.0) { 2.0 } else { 10.0 }
}

fn points(chart: &PointChart) -> Result<Figure, String> {
    const HEIGHT: u32 = 330;
    let all = || chart.series.iter().flat_map(|series| &series.points);
    let ends = || chart.limits.iter().flat_map(|limit| &limit.points);
    if all().next().is_none() {
        return Err("there is nothing to draw".to_owned());
    }
    let x = range(all().map(|point| point.x).chain(ends().map(|end| end.0)), chart.x.is_logarithmic);
    let y = range(all().map(|point| point.y).chain(ends().map(|end| end.1)), chart.y.is_logarithmic);
    let (of_x, of_y) = (base(&x, all().map(|point| point.x)), base(&y, all().map(|point| point.y)));
    let svg = svg((WIDTH, HEIGHT), |area| match (chart.x.is_logarithmic, chart.y.is_logarithmic) {
        (true, true) => axes(area, chart, x.log_scale().base(of_x), y.log_scale().base(of_y)),
        (true, false) => axes(area, chart, x.log_scale().base(of_x), y),
        (false, true) => axes(area, chart, x, y.log_scale().base(of_y)),
        (false, false) => axes(area, chart, x, y),
    })?;
    Ok(Figure { title: chart.title.clone(), svg, key: key(chart)?, says: says(chart) })
}

fn axes<B, X, Y>(area: &DrawingArea<B, Shift>, chart: &PointChart, x: X, y: Y) -> Result<(), String>
where
    B: DrawingBackend,
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut plot = ChartBuilder::on(area)
        .margin_right(10)
        .margin_top(8)
        .x_label_area_size(38)
        .y_label_area_size(50)
        .build_cartesian_2d(x, y)
        .map_err(text_error)?;
    plot.configure_mesh()
        .x_desc(chart.x.name)
        .y_desc(chart.y.name)
        .x_labels(7)
        .y_labels(8)
        .label_style(letters(&INK))
        .axis_desc_style(letters(&INK))
        .axis_style(INK.mix(0.4))
        .bold_line_style(INK.mix(0.15))
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&tick)
        .y_label_formatter(&tick)
        .draw()
        .map_err(text_error)?;
    let mut taken = Vec::new();
    for limit in &chart.limits {
        for ends in limit.points.windows(2) {
            let (from, to) = (plot.backend_coord(&ends[0]), plot.backend_coord(&ends[1]));
            taken.extend(along(from, to));
        }
        plot.draw_series(LineSeries::new(limit.points.iter().copied(), INK.mix(0.8).stroke_width(2)))
            .map_err(text_error)?;
    }
    // Of a cloud of points, what each is stands in the table alone.
    let is_cloud =
        chart.series.iter().flat_map(|series| &series.points).filter(|point| point.label.is_some()).count() > CLOUD;
    let mut labels = Vec::new();
    for (at, series) in chart.series.iter().enumerate() {
        let places = || series.points.iter().map(|point| (point.x, point.y));
        if series.is_joined {
            plot.draw_series(LineSeries::new(places(), hue(at).stroke_width(2))).map_err(text_error)?;
        }
        for point in &series.points {
            let place = plot.backend_coord(&(point.x, point.y));
            area.draw(&mark(place, at)).map_err(text_error)?;
            taken.push([place.0 - 4, place.1 - 4, place.0 + 4, place.1 + 4]);
            labels.extend(point.label.as_deref().filter(|_| !is_cloud).map(|label| (place, label, at)));
        }
    }
    let frame = plot.plotting_area().get_pixel_range();
    let frame = [frame.0.start, frame.1.start, frame.0.end, frame.1.end];
    for (place, label, at) in free_places(labels, taken, frame) {
        area.draw(&Text::new(label, place, letters(hue(at)))).map_err(text_error)?;
    }
    Ok(())
}

/// Left, top, right, bottom.
type Extent = [i32; 4];

/// The points along a line, which labels avoid.
fn along(from: (i32, i32), to: (i32, i32)) -> impl Iterator<Item = Extent> {
    const PIECES: i32 = 60;
    (0..=PIECES).map(move |piece| {
        let x = from.0 + (to.0 - from.0) * piece / PIECES;
        let y = from.1 + (to.1 - from.1) * piece / PIECES;
        [x - 2, y - 2, x + 2, y + 2]
    })
}

/// Positions of the labels of points: beside, above or below them, where there is room; the highest choose first. One label
/// serves all points of its name.
fn free_places(
    mut labels: Vec<((i32, i32), &str, usize)>,
    mut taken: Vec<Extent>,
    frame: Extent,
) -> Vec<((i32, i32), &str, usize)> {
    labels.sort_by_key(|((_, y), ..)| *y);
    let overlap = |a: &Extent, b: &Extent| a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
    let mut placed: Vec<((i32, i32), &str, usize)> = Vec::new();
    for ((x, y), label, at) in labels {
        if placed.iter().any(|(_, other, _)| *other == label) {
            continue;
        }
        let (wide, high) = (width(label) as i32 + 1, LETTER as i32 + 1);
        let corners = [
            (x + 6, y - high / 2),
            (x - 6 - wide, y - high / 2),
            (x - wide / 2, y - 6 - high),
            (x - wide / 2, y + 6),
            (x + 4, y - 4 - high),
            (x + 4, y + 4),
        ];
        let extents = corners.map(|(left, top)| [left, top, left + wide, top + high]);
        let is_free = |extent: &&Extent| {
            let inside = extent[0] > frame[0] && extent[1] > frame[1] && extent[2] < frame[2] && extent[3] < frame[3];
            inside && !taken.iter().any(|taken| overlap(taken, extent))
        };
        if let Some(extent) = extents.iter().find(is_free).copied() {
            taken.push(extent);
            placed.push(((extent[0], extent[1]), label, at));
        }
    }
    placed
}

/// Each series and each line, with its mark.
fn key(chart: &PointChart) -> Result<Vec<KeyEntry>, String> {
    const SIZE: (u32, u32) = (26, 14);
    const MIDDLE: (i32, i32) = (13, 7);
    let line = |colour: RGBAColor| PathElement::new([(1, MIDDLE.1), (25, MIDDLE.1)], colour.stroke_width(2));
    let limit = |limit: &super::chart::Limit| {
        let svg = svg(SIZE, |area| area.draw(&line(INK.mix(0.8))).map_err(text_error))?;
        Ok(KeyEntry { svg, name: limit.name.clone() })
    };
    let entry = |(at, series): (usize, &Series)| {
        let svg = svg(SIZE, |area| {
            if series.is_joined {
                area.draw(&line((*hue(at)).into())).map_err(text_error)?;
            }
            area.draw(&mark(MIDDLE, at)).map_err(text_error)
        })?;
        Ok(KeyEntry { svg, name: series.name.clone() })
    };
    chart.limits.iter().map(limit).chain(chart.series.iter().enumerate().map(entry)).collect()
}

/// Start and end of each series.
fn says(chart: &PointChart) -> String {
    let says = |value: f64| if value.abs() < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") };
    let of = |series: &Series| {
        let (first, last) = (series.points.first()?, series.points.last()?);
        Some(if series.is_joined {
            format!(
                "{}: from {} at {} to {} at {}",
                series.name,
                says(first.y),
                tick(&first.x),
                says(last.y),
                tick(&last.x)
            )
        } else {
            let heights = || series.points.iter().map(|point| point.y);
            let (low, high) = (heights().fold(f64::INFINITY, f64::min), heights().fold(f64::NEG_INFINITY, f64::max));
            format!("{}: {} points from {} to {}", series.name, series.points.len(), says(low), says(high))
        })
    };
    let limits = chart.limits.iter().map(|limit| limit.name.clone());
    let parts: Vec<String> = limits.chain(chart.series.iter().filter_map(of)).collect();
    format!("{} over {}. {}.", chart.y.name, chart.x.name, parts.join("; "))
}
