//! Drawings as SVG and PNG files.

use std::path::{Path, PathBuf};

use common::text::printable_lines;
use plotters::coord::{CoordTranslate, Shift};
use plotters::prelude::*;
use plotters::style::register_font;

use crate::{Error, Result};

/// The family that the built-in font goes by.
pub const FONT: &str = "sans-serif";
const LINE: RGBColor = RGBColor(8, 69, 148);
/// Minimum span of the value axis, relative to the largest value: a constant is drawn as a line, not as noise.
const LEAST_SPAN: f64 = 1e-6;

/// Values over a horizontal axis, as one line.
#[derive(Clone, Debug)]
pub struct LinePlot {
    /// Title, above the drawing.
    pub title: String,
    /// Label of the horizontal axis, with its unit.
    pub x: String,
    /// Label of the vertical axis, with its unit.
    pub y: String,
    /// Points, from the left.
    pub points: Vec<(f64, f64)>,
}

/// A drawing that can be saved as an SVG and as a PNG file.
pub trait Drawing {
    /// Width and height in pixels.
    const SIZE: (u32, u32);

    /// Draws on the area, which is presented afterwards; text is in [`FONT`], which is there by then.
    ///
    /// # Errors
    /// If there is nothing to draw, or the area reports an error.
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), String>;

    /// Writes `NAME.svg` and `NAME.png` into `dir`, which is created if it does not exist, and returns their paths.
    ///
    /// # Errors
    /// [`Error::Write`] if it cannot be drawn, or a file cannot be written.
    fn save(&self, dir: &Path, name: &str) -> Result<Vec<PathBuf>> {
        let fail = |path: &Path, reason: String| Error::Write { path: path.to_owned(), reason };
        let [svg, png] = ["svg", "png"].map(|ending| dir.join(format!("{name}.{ending}")));
        let text = self.svg().map_err(|reason| fail(&svg, reason))?;
        std::fs::create_dir_all(dir).map_err(|error| fail(dir, error.to_string()))?;
        std::fs::write(&svg, text).map_err(|error| fail(&svg, error.to_string()))?;

        let (width, height) = Self::SIZE;
        let mut pixels = vec![0; 3 * width as usize * height as usize];
        {
            let area = BitMapBackend::with_buffer(&mut pixels, Self::SIZE).into_drawing_area();
            let drawn = self.draw(&area).and_then(|()| area.present().map_err(|error| error.to_string()));
            drawn.map_err(|reason| fail(&png, reason))?;
        }
        image::save_buffer(&png, &pixels, width, height, image::ColorType::Rgb8)
            .map_err(|error| fail(&png, error.to_string()))?;
        Ok(vec![svg, png])
    }

    /// Draws the text of an SVG file.
    ///
    /// # Errors
    /// Same as [`Drawing::draw`].
    fn svg(&self) -> Result<String, String> {
        svg(Self::SIZE, |area| self.draw(area))
    }
}

/// The text of an SVG file of this width and height, drawn by `draw`; text is in [`FONT`].
///
/// # Errors
/// Errors of `draw`.
pub fn svg(
    size: (u32, u32),
    draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), String>,
) -> Result<String, String> {
    register_font(FONT, FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| "the built-in font cannot be read".to_owned())?;
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area)?;
        // Once: an SVG file that is closed after each of its parts is none.
        area.present().map_err(|error| error.to_string())?;
    }
    // Titles have names of files in them, and XML allows no control characters.
    Ok(printable_lines(&text).into_owned())
}

/// A white sheet with a title, `label_width` pixels for the labels of the vertical axis, and room for a chart.
///
/// # Errors
/// Errors of the area.
pub fn sheet<'a, 'b, B: DrawingBackend>(
    area: &'a DrawingArea<B, Shift>,
    title: &str,
    label_width: u32,
) -> Result<ChartBuilder<'a, 'b, B>, String> {
    area.fill(&WHITE).map_err(|error| error.to_string())?;
    let mut chart = ChartBuilder::on(area);
    chart.caption(title, (FONT, 24)).margin(16).x_label_area_size(48).y_label_area_size(label_width);
    Ok(chart)
}

/// A box on the chart that names its series.
///
/// # Errors
/// Errors of the area.
pub fn legend<'a, B: DrawingBackend + 'a, C: CoordTranslate>(
    chart: &mut ChartContext<'a, B, C>,
    position: SeriesLabelPosition,
) -> Result<(), String> {
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE.mix(0.9))
        .border_style(BLACK.mix(0.3))
        .label_font((FONT, 15))
        .draw()
        .map_err(|error| error.to_string())
}

impl Drawing for LinePlot {
    const SIZE: (u32, u32) = (1200, 600);

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), String> {
        let fail = |error: DrawingAreaErrorKind<B::ErrorType>| error.to_string();
        if let Some(at) = self.points.iter().position(|(x, y)| !(x.is_finite() && y.is_finite())) {
            return Err(format!("point {at} is {:?}", self.points[at]));
        }
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else {
            return Err("there is nothing to draw".to_owned());
        };
        let values = || self.points.iter().map(|(_, value)| *value);
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        let margin = 0.05 * (high - low).max(LEAST_SPAN * high.abs().max(low.abs())).max(f64::MIN_POSITIVE);
        // One point needs some width, too.
        let right = if last.0 > first.0 { last.0 } else { first.0 + 1.0 };
        let mut chart = sheet(area, &self.title, 88)?
            .build_cartesian_2d(first.0..right, low - margin..high + margin)
            .map_err(fail)?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .label_style((FONT, 16))
            .light_line_style(WHITE)
            .draw()
            .map_err(fail)?;
        chart.draw_series(LineSeries::new(self.points.iter().copied(), LINE.stroke_width(2))).map_err(fail)?;
        if let &[point] = self.points.as_slice() {
            chart.draw_series([Circle::new(point, 4, LINE.filled())]).map_err(fail)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: (u32, u32) = LinePlot::SIZE;

    fn plot(points: &[(f64, f64)]) -> LinePlot {
        let [title, x, y] = ["Error over time", "seconds", "score"].map(str::to_owned);
        LinePlot { title, x, y, points: points.to_vec() }
    }

    /// For each column of pixels with the line in it, the middle of its rows.
    fn heights(png: &Path) -> Vec<(u32, f64)> {
        let image = image::open(png).unwrap().to_rgb8();
        assert_eq!(image.dimensions(), SIZE);
        let is_line = |x, y| image.get_pixel(x, y).0 == [8, 69, 148];
        let rows = |x| (0..SIZE.1).filter(move |&y| is_line(x, y));
        (0..SIZE.0)
            .filter(|&x| rows(x).next().is_some())
            .map(|x| (x, rows(x).map(f64::from).sum::<f64>() / rows(x).count() as f64))
            .collect()
    }

    #[test]
    fn both_files_show_the_line_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        // Level, then a peak at three quarters.
        let points: Vec<(f64, f64)> =
            (0..=100).map(|i| (f64::from(i) * 0.1, if i == 75 { 5.0 } else { 1.0 })).collect();
        let paths = plot(&points).save(&dir.path().join("new"), "score").unwrap();
        assert_eq!(paths, ["score.svg", "score.png"].map(|name| dir.path().join("new").join(name)));
        let svg = std::fs::read_to_string(&paths[0]).unwrap();
        for text in ["Error over time", "seconds", "score", "<polyline"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        let heights = heights(&paths[1]);
        let ((left, level), (right, end)) = (heights[0], heights[heights.len() - 1]);
        // As wide as the drawing without its margins and labels, as high at its end as at its beginning, low in the drawing.
        assert!(right - left > 1000 && (level - end).abs() < 1.0 && level > 400.0, "{:?}", heights[0]);
        let peak = heights.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        assert!((f64::from(peak.0 - left) / f64::from(right - left) - 0.75).abs() < 0.01 && peak.1 < 320.0, "{peak:?}");
    }

    #[test]
    fn a_constant_and_a_single_point_are_drawn() {
        let dir = tempfile::tempdir().unwrap();
        for (name, points) in [("constant", vec![(0.0, 2.0), (1.0, 2.0)]), ("zero", vec![(0.0, 0.0), (1.0, 0.0)])] {
            let heights = heights(&plot(&points).save(dir.path(), name).unwrap()[1]);
            assert!(heights.len() > 1000 && heights.iter().all(|(_, y)| (y - heights[0].1).abs() < 1.0), "{name}");
        }
        let heights = heights(&plot(&[(3.0, 1.0)]).save(dir.path(), "point").unwrap()[1]);
        assert!((4..=12).contains(&heights.len()), "{heights:?}");
    }

    /// A file may be called so, and its name is in the title.
    #[test]
    fn control_characters_of_a_title_are_shown_and_not_obeyed() {
        let mut plot = plot(&[(0.0, 1.0), (1.0, 2.0)]);
        plot.title = "a\u{1b}[2J\u{202e}<b>.wav".to_owned();
        let svg = plot.svg().unwrap();
        assert!(svg.contains(r"a\u{1b}[2J\u{202e}&lt;b&gt;.wav"), "{svg}");
        assert!(!svg.contains(|c: char| c.is_control() && c != '\n' || c == '\u{202e}'));
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |points: &[(f64, f64)], says: &str| {
            let error = plot(points).save(dir.path(), "score").unwrap_err().to_string();
            assert!(error.starts_with("cannot write ") && error.contains(says), "{error}");
        };
        refused(&[], "there is nothing to draw");
        refused(&[(0.0, 1.0), (1.0, f64::NAN)], "point 1 is (1.0, NaN)");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(plot(&[(0.0, 1.0)]).save(&dir.path().join("file"), "score").is_err());
    }
}
