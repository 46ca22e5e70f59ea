//! Data of a plot, for drawing it in another way than [`super::svg`]: the book does, in the colours of its pages.

/// A plot's data.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    /// Charts of bars, one below the other.
    Bars(Vec<BarChart>),
    /// Points, or curves through them.
    Points(PointChart),
}

/// Range of the values that a chart has room for, by their size: axes have a tick for every factor of 2 or 10.
const VALUES: std::ops::RangeInclusive<f64> = 1e-12..=1e15;

impl Chart {
    /// Whether there is something to draw, and axes can hold all of it: a run may be a stranger's, and a logarithmic axis has no 0.
    ///
    /// # Errors
    /// The reason against it, in a sentence.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_held = |value: f64, is_logarithmic: bool| {
            VALUES.contains(&value) || !is_logarithmic && (value == 0.0 || VALUES.contains(&-value))
        };
        let values: Vec<(f64, bool)> = match self {
            Chart::Bars(charts) => {
                let bars = charts.iter().flat_map(|chart| &chart.bars);
                bars.flat_map(|bar| [Some(bar.value), bar.before]).flatten().map(|value| (value, true)).collect()
            }
            Chart::Points(PointChart { x, y, series, limits, .. }) => {
                let points = series.iter().flat_map(|series| &series.points).map(|point| (point.x, point.y));
                let corners = limits.iter().flat_map(|limit| limit.points.iter().copied());
                let both = |(right, up): (f64, f64)| [(right, x.is_logarithmic), (up, y.is_logarithmic)];
                points.chain(corners).flat_map(both).collect()
            }
        };
        match values.iter().find(|(value, is_logarithmic)| !is_held(*value, *is_logarithmic)) {
            Some((value, _)) => Err(format!("no axis holds {value:e}")),
            None if values.is_empty() => Err("there is nothing to draw".to_owned()),
            None => Ok(()),
        }
    }
}

/// A horizontal bar for each of several names.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    /// Subject of the chart.
    pub title: String,
    /// The unit of all values.
    pub unit: &'static str,
    /// From top to bottom.
    pub bars: Vec<ChartBar>,
}

/// A bar of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartBar {
    /// Subject of the chart.
    pub name: String,
    /// Its length.
    pub value: f64,
    /// The length of the bar above it, if this is a step from that one.
    pub before: Option<f64>,
    /// Text at its end: its value, and how many times as fast as before it is.
    pub label: String,
}

/// Series of points.
#[derive(Clone, Debug, PartialEq)]
pub struct PointChart {
    /// Subject of the chart.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// In the order of the table.
    pub series: Vec<Series>,
    /// Lines that are not measurements of the compared things.
    pub limits: Vec<Limit>,
}

/// A direction of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The quantity and its unit.
    pub name: &'static str,
    /// Whether equal distances are equal factors.
    pub is_logarithmic: bool,
}

/// Points of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name of the series.
    pub name: String,
    /// Whether a line leads through the points.
    pub is_joined: bool,
    /// In the order of the table.
    pub points: Vec<ChartPoint>,
}

/// A measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartPoint {
    /// Along the first axis.
    pub x: f64,
    /// Along the second.
    pub y: f64,
    /// Subject of the measurement, if the series does not state it.
    pub label: Option<String>,
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Label of the line.
    pub name: String,
    /// Its corners.
    pub points: Vec<(f64, f64)>,
}
