//! Plots of phase 5's record, in the colours of the page: `plot NAME [series "NAME" …] [labels "LABEL" …]`.
//!
//! [`phase5_bench::plot::chart()`] provides the data. Curves and points are distinguished by their labels, and each family of
//! series (those whose names begin alike) has a hue and a kind of line. With `series`, only those of these names are drawn, and
//! with `labels`, only points of these are labelled; a name that ends with `*` is a prefix.

use std::{collections::HashMap, path::Path};

use phase5_bench::plot::{
    chart::{Axis, BarChart, Chart, Limit, PointChart, Series},
    subject,
};

use crate::{
    content::Picture,
    record::{self, RecordError},
    simulator,
};

use super::{
    DrawingError,
    canvas::{Area, Canvas, Look, SMALL, Stroke, Style, TEXT, WIDTH},
};

/// Hues of families, with their kinds of line.
const HUES: [(&str, Stroke); 5] = [
    ("first", Stroke::First),
    ("second", Stroke::Second),
    ("third", Stroke::Third),
    ("fourth", Stroke::Fourth),
    ("", Stroke::Plain),
];

/// Maximum width of a text, as a multiple of its height and its number of letters.
const LETTER: f64 = 0.56;

/// The plot described by `argument`.
///
/// # Errors
/// [`RecordError`] if there is no such record or no plot of the name, or no data for it in the record.
pub fn picture(workspace: &Path, argument: &str) -> Result<Picture, DrawingError> {
    let syntax = |reason: String| RecordError::Syntax(reason);
    let words = simulator::split(argument).map_err(|error| syntax(error.to_string()))?;
    let [name, options @ ..] = &words[..] else {
        return Err(syntax("a plot needs a name".to_owned()).into());
    };
    let (mut series, mut labels) = (Vec::new(), Vec::new());
    let mut section: Option<&mut Vec<&str>> = None;
    for word in options {
        match (word.as_str(), &mut section) {
            ("series", _) => section = Some(&mut series),
            ("labels", _) => section = Some(&mut labels),
            (word, Some(section)) => section.push(word),
            (word, None) => return Err(syntax(format!("`{word}`: write `series` or `labels`")).into()),
        }
    }
    let (table, what) = subject(name);
    let (chart, caption) = record::chart(workspace, name, table)?;
    let canvas = Canvas::new(format!("plot-{name}"));
    match chart {
        Chart::Bars(charts) if options.is_empty() => Ok(bars(canvas, &charts, what, caption)),
        Chart::Bars(_) => Err(syntax(format!("`{name}` has bars: no series, no labels")).into()),
        Chart::Points(mut chart) => {
            if !series.is_empty() {
                chart.series = chosen(chart.series, &series)?;
            }
            if !labels.is_empty() {
                keep_labels(&mut chart.series, &labels)?;
            }
            Ok(points(canvas, &chart, what, caption))
        }
    }
}

/// Whether a name is, or begins with, the wanted one.
fn is(name: &str, wanted: &str) -> bool {
    wanted.strip_suffix('*').map_or(name == wanted, |beginning| name.starts_with(beginning))
}

/// The series of these names.
fn chosen(series: Vec<Series>, wanted: &[&str]) -> Result<Vec<Series>, RecordError> {
    if let Some(missing) = wanted.iter().find(|wanted| !series.iter().any(|series| is(&series.name, wanted))) {
        let known = series.iter().map(|series| &*series.name).collect::<Vec<_>>().join(", ");
        return Err(RecordError::Syntax(format!("no series `{missing}`; there are: {known}")));
    }
    Ok(series.into_iter().filter(|series| wanted.iter().any(|wanted| is(&series.name, wanted))).collect())
}

/// Keeps only the labels of these names.
fn keep_labels(series: &mut [Series], wanted: &[&str]) -> Result<(), RecordError> {
    let mut found = vec![false; wanted.len()];
    for point in series.iter_mut().flat_map(|series| &mut series.points) {
        let place = point.label.as_ref().and_then(|label| wanted.iter().position(|wanted| is(label, wanted)));
        match place {
            Some(at) => found[at] = true,
            None => point.label = None,
        }
    }
    match wanted.iter().zip(found).find(|(_, found)| !found) {
        Some((missing, _)) => Err(RecordError::Syntax(format!("no point is labelled `{missing}`"))),
        None => Ok(()),
    }
}

/// A title without the place of measurement, which the caption states, and without code marks.
fn title(title: &str) -> String {
    title.split(": ").next().unwrap_or_default().replace('`', "")
}

/// Layout of a chart's bars.
struct Rows {
    /// Distance from the top of one to that of the next.
    step: f64,
    /// Start of bars, from the left and from the top of their row.
    bar: (f64, f64),
    /// Baselines of names and labels, from the top of their row.
    name: f64,
    label: f64,
}

/// Names stand above their bars; beside them, if there are many.
fn rows_of(chart: &BarChart, left: f64) -> Rows {
    /// More bars than these would make a chart too long for a screen.
    const MANY: usize = 8;
    if chart.bars.len() <= MANY {
        return Rows { step: 37.0, bar: (left, 15.0), name: 10.0, label: 26.0 };
    }
    let names = chart.bars.iter().map(|bar| width(&bar.name, TEXT)).fold(0.0, f64::max);
    Rows { step: 20.0, bar: (left + names + 6.0, 2.0), name: 13.0, label: 13.0 }
}

fn bars(mut canvas: Canvas, charts: &[BarChart], what: &str, caption: String) -> Picture {
    const LEFT: f64 = 6.0;
    let mut y = 4.0;
    let mut said = Vec::new();
    for chart in charts {
        canvas.text((LEFT, y + 14.0), Style::START.bold(), &title(&chart.title));
        canvas.text((LEFT, y + 31.0), Style::START.small(), chart.unit);
        y += 40.0;
        let rows = rows_of(chart, LEFT);
        let most = chart.bars.iter().map(|bar| bar.value.max(bar.before.unwrap_or(0.0))).fold(0.0, f64::max);
        // Room for the longest label behind the longest bar.
        let labels = chart.bars.iter().map(|bar| width(&bar.label, TEXT)).fold(0.0, f64::max);
        let room = WIDTH - rows.bar.0 - labels - LEFT - 8.0;
        let length = |value: f64| if most > 0.0 { value / most * room } else { 0.0 };
        for bar in &chart.bars {
            canvas.text((LEFT, y + rows.name), Style::START, &bar.name);
            let area = |value| Area::new(rows.bar.0, y + rows.bar.1, length(value), 13.0);
            if let Some(before) = bar.before {
                canvas.area(area(before), Look::Dashed);
            }
            canvas.bar(area(bar.value), "first");
            let end = rows.bar.0 + length(bar.value.max(bar.before.unwrap_or(0.0)));
            canvas.text((end + 5.0, y + rows.label), Style::START, &bar.label);
            said.push(format!("{}: {}", bar.name, bar.label));
            y += rows.step;
        }
        y += 14.0;
    }
    let has_steps = charts.iter().flat_map(|chart| &chart.bars).any(|bar| bar.before.is_some());
    let caption = if has_steps { format!("{caption} Dashed: the bar above it.") } else { caption };
    canvas.finish(y - 8.0, &format!("{what}. {}.", said.join("; ")), caption)
}

/// Positions of an axis's values.
struct Scale {
    is_logarithmic: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// A scale for these values, with some margin on both sides, between two coordinates.
    fn of(axis: Axis, values: impl Iterator<Item = f64>, [from, to]: [f64; 2]) -> Scale {
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let margin =
            if axis.is_logarithmic { (high / low).powf(0.05).max(1.02) } else { (high - low).max(1e-9) * 0.06 };
        let (low, high) =
            if axis.is_logarithmic { (low / margin, high * margin) } else { (low - margin, high + margin) };
        Scale { is_logarithmic: axis.is_logarithmic, low, high, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = if self.is_logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// Round values on it: for a logarithmic one powers of ten, and their halves and fifths if it is short.
    fn ticks(&self) -> Vec<f64> {
        let inside = |value: &f64| (self.low..=self.high).contains(value);
        if self.is_logarithmic {
            let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
            let decades = (self.high / self.low).log10();
            let steps: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let all = (first..=last).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
            return all.filter(inside).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|&step| step >= rough).unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        (first..).map(|count| count as f64 * step).take_while(|value| *value <= self.high).collect()
    }
}

/// A value formatted for an axis.
fn tick(value: f64) -> String {
    match value {
        1e6.. => format!("{} M", short(value / 1e6)),
        1e4..1e6 if value % 1e3 == 0.0 => format!("{} k", short(value / 1e3)),
        _ => short(value),
    }
}

fn short(value: f64) -> String {
    let value = format!("{value:.3}");
    value.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The first word of a name, and the second if that is a number: `phase 4` of `phase 4, f16`.
fn family(name: &str) -> &str {
    let end = |from: usize| name[from..].find([' ', ',']).map_or(name.len(), |at| from + at);
    let first = end(0);
    let next = name[first..].strip_prefix(' ').and_then(|rest| rest.chars().next());
    if next.is_some_and(|next| next.is_ascii_digit()) { &name[..end(first + 1)] } else { &name[..first] }
}

/// The hue of each series: that of its family.
fn hues(series: &[Series]) -> Vec<(&'static str, Stroke)> {
    let mut families = HashMap::new();
    let hue = |series: &Series| {
        let count = families.len();
        HUES[*families.entry(family(&series.name).to_owned()).or_insert(count) % HUES.len()]
    };
    series.iter().map(hue).collect()
}

/// The width of a text of some height.
fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER
}

fn points(mut canvas: Canvas, chart: &PointChart, what: &str, caption: String) -> Picture {
    const TOP: f64 = 26.0;
    const LEFT: f64 = 42.0;
    const HEIGHT: f64 = 330.0;
    let all = || chart.series.iter().flat_map(|series| &series.points);
    let limits = || chart.limits.iter().flat_map(|limit| &limit.points);
    let is_joined = chart.series.iter().any(|series| series.is_joined);
    let names = chart.series.iter().map(|series| width(&series.name, SMALL)).fold(0.0, f64::max);
    // Beside curves are their names, beside the last point what it says.
    let last = all().max_by(|a, b| a.x.total_cmp(&b.x)).and_then(|point| point.label.as_deref());
    let said = last.map_or(0.0, |label| width(label, SMALL) + 8.0);
    let right = WIDTH - if is_joined { names.min(150.0) + 22.0 } else { said.clamp(6.0, 100.0) };
    let frame = Area::new(LEFT, TOP, right - LEFT, HEIGHT);
    let x = Scale::of(chart.x, all().map(|p| p.x).chain(limits().map(|p| p.0)), [frame.x, frame.right()]);
    let y = Scale::of(chart.y, all().map(|p| p.y).chain(limits().map(|p| p.1)), [frame.bottom(), frame.y]);

    canvas.text((4.0, 14.0), Style::START.small(), chart.y.name);
    for value in y.ticks() {
        canvas.line(&[(frame.x, y.at(value)), (frame.right(), y.at(value))], Stroke::Faint);
        canvas.text((frame.x - 5.0, y.at(value) + 4.0), Style::END.small(), &tick(value));
    }
    // Where all points lie on few values, those are the ticks.
    let mut measured: Vec<f64> = all().map(|point| point.x).collect();
    measured.sort_by(f64::total_cmp);
    measured.dedup();
    let ticks = if is_joined && measured.len() <= 8 { measured } else { x.ticks() };
    let mut free = f64::NEG_INFINITY;
    for value in ticks {
        let (place, text) = (x.at(value), tick(value));
        canvas.line(&[(place, frame.y), (place, frame.bottom())], Stroke::Faint);
        if place - width(&text, SMALL) / 2.0 > free {
            canvas.text((place, frame.bottom() + 15.0), Style::MIDDLE.small(), &text);
            free = place + width(&text, SMALL) / 2.0 + 3.0;
        }
    }
    canvas.area(frame, Look::Outline);
    canvas.text((frame.middle(), frame.bottom() + 32.0), Style::MIDDLE.small(), chart.x.name);
    let mut bottom = frame.bottom() + 40.0;

    for limit in &chart.limits {
        canvas.line(&limit.points.iter().map(|p| (x.at(p.0), y.at(p.1))).collect::<Vec<_>>(), Stroke::Plain);
        bottom += 16.0;
        canvas.line(&[(8.0, bottom - 4.0), (26.0, bottom - 4.0)], Stroke::Plain);
        canvas.text((34.0, bottom), Style::START.small(), &limit.name);
    }
    let hues = hues(&chart.series);
    let places = |series: &Series| series.points.iter().map(|p| (x.at(p.x), y.at(p.y))).collect::<Vec<_>>();
    for (at, (series, (hue, stroke))) in chart.series.iter().zip(&hues).enumerate() {
        let places = places(series);
        if series.is_joined {
            canvas.line(&places, *stroke);
        }
        for place in places {
            canvas.mark(place, if series.is_joined { 0 } else { at }, hue);
        }
    }
    if is_joined {
        let ends = chart.series.iter().map(|series| places(series).last().copied().unwrap_or_default());
        label_ends(&mut canvas, &chart.series, &hues, &ends.collect::<Vec<_>>(), frame);
    } else {
        let corners = |limit: &Limit| limit.points.iter().map(|p| (x.at(p.0), y.at(p.1))).collect::<Vec<_>>();
        let limits: Vec<_> = chart.limits.iter().map(corners).collect();
        label_points(&mut canvas, chart, &hues, &places, &limits, frame);
        for (at, (series, (hue, _))) in chart.series.iter().zip(&hues).enumerate() {
            // Two columns, if names are short.
            let is_second = names < 160.0 && at % 2 == 1;
            bottom += if is_second { 0.0 } else { 17.0 };
            let left = if is_second { 210.0 } else { 8.0 };
            canvas.mark((left + 9.0, bottom - 4.0), at, hue);
            canvas.text((left + 20.0, bottom), Style::START.small(), &series.name);
        }
    }
    let said = chart.series.iter().filter_map(|series| {
        let (first, last) = (series.points.first()?, series.points.last()?);
        let says = |value: f64| if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") };
        Some(if series.is_joined {
            format!("{}: from {} at {} to {} at {}", series.name, says(first.y), first.x, says(last.y), last.x)
        } else {
            let (low, high) =
                series.points.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), p| (low.min(p.y), high.max(p.y)));
            format!("{}: {} points from {} to {}", series.name, series.points.len(), says(low), says(high))
        })
    });
    let limits = chart.limits.iter().map(|limit| limit.name.clone());
    let said = limits.chain(said).collect::<Vec<_>>().join("; ");
    canvas.finish(bottom + 8.0, &format!("{what}. {} over {}. {said}.", chart.y.name, chart.x.name), caption)
}

/// Labels of curves, each beside its end or as near to it as the others allow.
fn label_ends(
    canvas: &mut Canvas,
    series: &[Series],
    hues: &[(&'static str, Stroke)],
    ends: &[(f64, f64)],
    frame: Area,
) {
    const LINE: f64 = 14.0;
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by(|&a, &b| ends[a].1.total_cmp(&ends[b].1));
    let mut heights: Vec<f64> = order.iter().map(|&at| ends[at].1).collect();
    // Down from the top, then up from the bottom where that went too far.
    let mut least = frame.y;
    for height in &mut heights {
        *height = height.max(least);
        least = *height + LINE;
    }
    let mut most = frame.bottom();
    for height in heights.iter_mut().rev() {
        *height = height.min(most);
        most = *height - LINE;
    }
    for (&at, height) in order.iter().zip(heights) {
        let (x, y) = ends[at];
        let label = frame.right() + 16.0;
        if (height - y).abs() > 1.0 || x + 8.0 < frame.right() {
            canvas.line(&[(x + 4.0, y), (label - 2.0, height)], Stroke::Faint);
        }
        let class = if hues[at].0.is_empty() { Style::START.small() } else { Style::START.small().of(hues[at].0) };
        canvas.text((label, height + 4.0), class, &series[at].name);
    }
}

/// Whether two areas have a point in common.
fn overlap(a: Area, b: Area) -> bool {
    a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom()
}

/// Labels of points, where there is room: beside, above or below them. The highest come first.
fn label_points(
    canvas: &mut Canvas,
    chart: &PointChart,
    hues: &[(&'static str, Stroke)],
    places: &dyn Fn(&Series) -> Vec<(f64, f64)>,
    limits: &[Vec<(f64, f64)>],
    frame: Area,
) {
    /// Number of pieces of a line, each of which labels avoid.
    const PIECES: u32 = 60;
    let mut taken: Vec<Area> = Vec::new();
    for ends in limits.iter().flat_map(|limit| limit.windows(2)) {
        let (from, to) = (ends[0], ends[1]);
        taken.extend((0..=PIECES).map(|piece| {
            let share = f64::from(piece) / f64::from(PIECES);
            Area::new(from.0 + share * (to.0 - from.0) - 2.0, from.1 + share * (to.1 - from.1) - 2.0, 4.0, 4.0)
        }));
    }
    let mut labels = Vec::new();
    for (series, (hue, _)) in chart.series.iter().zip(hues) {
        for (place, point) in places(series).into_iter().zip(&series.points) {
            taken.push(Area::new(place.0 - 4.0, place.1 - 4.0, 8.0, 8.0));
            labels.extend(point.label.as_deref().map(|label| (place, label, *hue)));
        }
    }
    labels.sort_by(|(a, ..), (b, ..)| a.1.total_cmp(&b.1));
    let mut said: Vec<(f64, &str)> = Vec::new();
    for ((x, y), label, hue) in labels {
        // One label says it for a whole column.
        if said.iter().any(|(other, said)| *said == label && (x - other).abs() < 1.0) {
            continue;
        }
        let (width, height) = (width(label, SMALL), SMALL);
        let spots = [
            (x + 6.0, y - height / 2.0),
            (x - 6.0 - width, y - height / 2.0),
            (x - width / 2.0, y - 6.0 - height),
            (x - width / 2.0, y + 6.0),
            (x + 4.0, y - 4.0 - height),
            (x + 4.0, y + 4.0),
            (x - width - 4.0, y - 4.0 - height),
            (x - width - 4.0, y + 4.0),
        ]
        .map(|(x, y)| Area::new(x, y, width, height));
        let is_free = |spot: &&Area| {
            let inside = spot.x >= frame.x
                && spot.right() <= WIDTH
                && spot.y >= frame.y - SMALL
                && spot.bottom() <= frame.bottom();
            inside && !taken.iter().any(|&taken| overlap(taken, **spot))
        };
        let Some(spot) = spots.iter().find(is_free).copied() else { continue };
        let style = if hue.is_empty() { Style::START.small() } else { Style::START.small().of(hue) };
        canvas.text((spot.x, spot.y + height * 0.85), style, label);
        taken.push(spot);
        said.push((x, label));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_what_names_begin_with() {
        for (name, of) in [
            ("phase 4, f16", "phase 4"),
            ("phase 3", "phase 3"),
            ("PyTorch, CPU", "PyTorch"),
            ("PyTorch eager", "PyTorch"),
            ("naive, d = 40", "naive"),
            ("CPU", "CPU"),
            ("3 wgmma", "3"),
        ] {
            assert_eq!(family(name), of);
        }
    }

    #[test]
    fn axes_have_round_numbers_within_their_range() {
        let scale = |is_logarithmic, low, high| Scale { is_logarithmic, low, high, from: 0.0, to: 100.0 };
        assert_eq!(scale(true, 0.9, 1100.0).ticks(), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(scale(true, 4.0, 30.0).ticks(), [5.0, 10.0, 20.0]);
        assert_eq!(scale(false, 21.0, 44.0).ticks(), [25.0, 30.0, 35.0, 40.0]);
        assert!((scale(true, 1.0, 100.0).at(10.0) - 50.0).abs() < 1e-9);
        assert_eq!([0.05, 2.0, 256.0, 20_000.0].map(tick), ["0.05", "2", "256", "20 k"]);
    }

    #[test]
    fn labels_of_curves_keep_their_distance_and_stay_inside() {
        let series: Vec<Series> =
            (0..6).map(|at| Series { name: format!("s{at}"), is_joined: true, points: Vec::new() }).collect();
        let mut canvas = Canvas::new("labels");
        let ends: Vec<_> = (0..6).map(|at| (90.0, 95.0 + f64::from(at % 2))).collect();
        label_ends(&mut canvas, &series, &hues(&series), &ends, Area::new(0.0, 0.0, 100.0, 100.0));
        let svg = canvas.finish(100.0, "", "").svg;
        let mut heights: Vec<f64> = svg
            .split("<text ")
            .skip(1)
            .filter_map(|text| text.split(" y=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        heights.sort_by(f64::total_cmp);
        assert_eq!(heights.len(), 6);
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] > 13.9), "{heights:?}");
        assert!(heights[5] <= 104.0);
    }

    #[test]
    fn only_series_that_there_are_can_be_chosen() {
        let of = |names: &[&str]| {
            names
                .iter()
                .map(|name| Series { name: (*name).to_owned(), is_joined: true, points: Vec::new() })
                .collect::<Vec<_>>()
        };
        let names = |wanted: &[&str]| {
            chosen(of(&["a", "a, d = 1", "b"]), wanted).map(|series| series.len()).map_err(|error| error.to_string())
        };
        assert_eq!((names(&["a"]), names(&["a*"])), (Ok(1), Ok(2)));
        assert!(names(&["c"]).is_err_and(|error| error.contains("no series `c`; there are: a, a, d = 1, b")));
    }
}
