//! Plots of a finished run's tables, as SVG and PNG.

pub mod chart;
mod curves;
mod quality;
mod roofline;

use std::path::{Path, PathBuf};

use common::record::Record;
use media::plot::Drawing;
use plotters::coord::Shift;
use plotters::prelude::*;

use chart::Chart;
use curves::{Bars, Curves};
use quality::Quality;
use roofline::Roofline;

use crate::{Error, Result};

/// Writes what a run has of the plots ([`NAMES`]) into `dir`, as SVG and PNG, and returns their paths.
///
/// # Errors
/// [`Error::Plot`] if the run has nothing to draw, [`Error::Media`] if a file cannot be written.
pub fn save(run: &Record, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    let mut nothing = None;
    for name in NAMES {
        match Plot::of(run, name) {
            Ok(plot) => paths.extend(plot.save(dir, name)?),
            Err(error) => nothing = nothing.or(Some(error)),
        }
    }
    match nothing {
        Some(error) if paths.is_empty() => Err(error),
        _ => Ok(paths),
    }
}

/// A plot of this name as the text of an SVG file.
///
/// # Errors
/// [`Error::Plot`] if there is none of the name, or the run has nothing to draw.
pub fn svg(run: &Record, name: &str) -> Result<String> {
    Plot::of(run, name)?.svg().map_err(|reason| Error::Plot { path: name.into(), reason })
}

/// What a plot of this name shows.
///
/// # Errors
/// As [`svg`].
pub fn chart(run: &Record, name: &str) -> Result<Chart> {
    Ok(match Plot::of(run, name)? {
        Plot::Roofline(plot) => Chart::Points(plot.chart()),
        Plot::Bars(plot) => Chart::Bars(vec![plot.chart()]),
        Plot::Curves(plot) => Chart::Points(plot.chart()),
        Plot::Quality(plot) => Chart::Points(plot.chart()),
        Plot::Charts(plots) => Chart::Bars(plots.iter().map(Bars::chart).collect()),
    })
}

/// The plots there are: the roofline; the GEMM ladder beside cuBLAS; what each kind of ResNet18's layers takes; images per second by batch; attention's rate; the way
/// of each model from phase 3 to phase 4; quality over speed of frames whose network has a memory.
pub const NAMES: [&str; 9] = [
    "roofline",
    "ladder",
    "layers",
    "resnet-batch",
    "attention",
    "way-resnet18",
    "way-unet",
    "way-autoencoder",
    "temporal",
];

enum Plot {
    Roofline(Roofline),
    Bars(Bars),
    Curves(Curves),
    Quality(Quality),
    /// One below the other.
    Charts(Vec<Bars>),
}

impl Plot {
    fn of(run: &Record, name: &str) -> Result<Plot> {
        match name {
            "roofline" => Ok(Plot::Roofline(Roofline::of(run)?)),
            "ladder" => Ok(Plot::Bars(Bars::of_ladder(run)?)),
            "layers" => Ok(Plot::Bars(Bars::of_layers(run)?)),
            "resnet-batch" => Ok(Plot::Curves(Curves::of_batches(run)?)),
            "attention" => Ok(Plot::Curves(Curves::of_attention(run)?)),
            "way-resnet18" => Ok(Plot::Charts(Bars::of_resnet18(run)?)),
            "way-unet" => Ok(Plot::Charts(Bars::of_unet(run)?)),
            "way-autoencoder" => Ok(Plot::Charts(Bars::of_autoencoder(run)?)),
            "temporal" => Ok(Plot::Quality(Quality::of(run)?)),
            _ => Err(Error::nothing_to_plot(name, "there is no such plot")),
        }
    }
}

impl Drawing for Plot {
    const SIZE: (u32, u32) = (1200, 800);

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> std::result::Result<(), String> {
        match self {
            Plot::Roofline(plot) => plot.draw(area),
            Plot::Bars(plot) => plot.draw(area),
            Plot::Curves(plot) => plot.draw(area),
            Plot::Quality(plot) => plot.draw(area),
            Plot::Charts(charts) => {
                let parts = area.split_evenly((charts.len(), 1));
                charts.iter().zip(parts).try_for_each(|(chart, part)| chart.draw(&part))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{LIMITS, Limits};
    use roofline::tests::run;

    #[test]
    fn both_files_show_the_whole() {
        let dir = tempfile::tempdir().unwrap();
        let mut run = run();
        run.push(LIMITS, Limits { flops: 60e12, bandwidth: 4e12 }.table());
        let paths = save(&run, &dir.path().join("plots")).unwrap();
        let svg = std::fs::read_to_string(&paths[0]).unwrap();
        for text in ["Roofline, f32: ptx-sim", "TFLOP/s", "cuBLAS", "measured: 4.00 TB/s", "<circle"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        let png = image::open(&paths[1]).unwrap().to_rgb8();
        assert_eq!(png.dimensions(), Plot::SIZE);
        let colours = |wanted: [u8; 3]| png.pixels().filter(|pixel| pixel.0 == wanted).count();
        let dots = [colours([8, 69, 148]), colours([203, 24, 29])];
        // A dot of radius 4 where it was measured, and one in the legend.
        assert!(dots.iter().all(|&dot| dot >= 2 * 40), "{dots:?}");
        assert!(colours([255, 255, 255]) > png.pixels().len() / 2);
    }

    #[test]
    fn bars_and_curves_are_drawn_with_their_axes() {
        let run = curves::tests::run();
        for name in ["layers", "resnet-batch"] {
            let svg = crate::plot::svg(&run, name).unwrap();
            assert!(svg.contains(if name == "layers" { "microseconds" } else { "images per second" }), "{name}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(crate::plot::save(&run, dir.path()).unwrap().len(), 4);
    }
}
