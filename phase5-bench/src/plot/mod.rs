//! Plots of a finished run's tables, as SVG and PNG.

pub mod chart;
mod curves;
pub mod page;
mod quality;
mod roofline;

use std::path::{Path, PathBuf};

use bench::record::Record;
use media::plot::Drawing;
use plotters::coord::Shift;
use plotters::prelude::*;

use chart::Chart;
use curves::{Bars, Curves};
use quality::Quality;
use roofline::Roofline;

use crate::{Error, Result};

/// Writes the plots ([`names`]) that a run has data for into `dir`, as SVG and PNG, and returns their paths.
///
/// # Errors
/// [`Error::Plot`] if the run has nothing to draw, [`Error::Media`] if a file cannot be written.
pub fn save(run: &Record, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    let mut nothing = None;
    for name in names() {
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

/// Writes one plot into `dir`, which must exist, as SVG and PNG.
///
/// # Errors
/// Same as [`svg`] and [`save`].
pub fn save_one(run: &Record, name: &str, dir: &Path) -> Result<Vec<PathBuf>> {
    Ok(Plot::of(run, name)?.save(dir, name)?)
}

/// A plot of this name as the text of an SVG file.
///
/// # Errors
/// [`Error::Plot`] if there is none of the name, or the run has nothing to draw.
pub fn svg(run: &Record, name: &str) -> Result<String> {
    Plot::of(run, name)?.svg().map_err(|reason| Error::Plot { path: name.into(), reason })
}

/// Data of the plot of this name.
///
/// # Errors
/// Same as [`svg`].
pub fn chart(run: &Record, name: &str) -> Result<Chart> {
    Ok(Plot::of(run, name)?.chart())
}

/// A plot that there is.
struct PlotSpec {
    name: &'static str,
    /// The table that it is drawn from.
    table: &'static str,
    /// A sentence without its full stop.
    shows: &'static str,
    of: fn(&Record) -> Result<Plot>,
}

/// A row of [`PLOTS`].
const fn plot(
    name: &'static str,
    table: &'static str,
    shows: &'static str,
    of: fn(&Record) -> Result<Plot>,
) -> PlotSpec {
    PlotSpec { name, table, shows, of }
}

/// All plots, in the order of a report.
static PLOTS: &[PlotSpec] = &[
    plot(
        "roofline-all",
        "gemm",
        "Roofline of all kernels whose operations are counted: those on tensor cores lie above the limit of f32",
        |run| Roofline::of_all(run).map(Plot::Roofline),
    ),
    plot(
        "roofline",
        "gemm",
        "Roofline: operations per second over operations per byte, each kernel below the measured limits of the device",
        |run| Roofline::of(run).map(Plot::Roofline),
    ),
    plot("ladder", "gemm", "Bars: the speed of each step of the GEMM ladder as a share of cuBLAS's", |run| {
        Bars::of_ladder(run, &curves::GEMM).map(Plot::Bars)
    }),
    plot(
        "ladder-conv",
        "conv",
        "Bars: the speed of each step of the convolution ladder as a share of cuDNN's",
        |run| Bars::of_ladder(run, &curves::CONV).map(Plot::Bars),
    ),
    plot(
        "ladder-tensor-cores",
        "tensor-cores",
        "Bars: the speed of each step of the ladder on tensor cores as a share of the library's",
        |run| Bars::of_ladder(run, &curves::TENSOR_CORES).map(Plot::Bars),
    ),
    plot(
        "ladder-tensor-attention",
        "tensor-attention",
        "Bars: the speed of each step of the attention ladder as a share of PyTorch's fastest",
        |run| Bars::of_ladder(run, &curves::TENSOR_ATTENTION).map(Plot::Bars),
    ),
    plot("layers", "layers", "Bars: the time that each kind of layer takes of a pass of ResNet18", |run| {
        Bars::of_layers(run).map(Plot::Bars)
    }),
    plot("way-resnet18", "resnet-batch", "Bars: the time of ResNet18 after each step from phase 3 to phase 4", |run| {
        Bars::of_resnet18(run).map(Plot::Charts)
    }),
    plot(
        "way-unet",
        "video",
        "Bars: the time of a frame of the U-Net after each step from phase 3 to phase 4",
        |run| Bars::of_unet(run).map(Plot::Charts),
    ),
    plot(
        "way-autoencoder",
        "autoencoder",
        "Bars: the time of the autoencoder after each step from phase 3 to one kernel",
        |run| Bars::of_autoencoder(run).map(Plot::Charts),
    ),
    plot(
        "fusion",
        "fusion",
        "Bars: the time of one launch as a share of that of several launches that do the same",
        |run| Bars::of_fusion(run).map(Plot::Bars),
    ),
    plot(
        "resnet-batch",
        "resnet-batch",
        "Curves: images per second over the batch, for implementations of ResNet18",
        |run| Curves::of_batches(run).map(Plot::Curves),
    ),
    plot(
        "autoencoder-batch",
        "autoencoder",
        "Curves: spectrograms per second over the batch, for implementations of the autoencoder",
        |run| Curves::of_autoencoder_batches(run).map(Plot::Curves),
    ),
    plot("attention", "attention", "Curves: the rate of attention over the number of tokens", |run| {
        Curves::of_attention(run).map(Plot::Curves)
    }),
    plot("scaling", "multi-gpu", "Curves: what several GPUs gain over one, for each way of dividing the work", |run| {
        Curves::of_scaling(run).map(Plot::Curves)
    }),
    plot(
        "temporal",
        "temporal",
        "Points: the quality of a clip over frames per second, for each precision and rule of temporal caching",
        |run| Quality::of(run).map(Plot::Quality),
    ),
];

/// The names of all plots, in the order of a report.
pub fn names() -> impl Iterator<Item = &'static str> {
    PLOTS.iter().map(|plot| plot.name)
}

/// The table that a plot is drawn from, and the plot's subject, in a sentence without its full stop.
pub fn subject(name: &str) -> (&str, &str) {
    PLOTS.iter().find(|plot| plot.name == name).map_or((name, name), |plot| (plot.table, plot.shows))
}

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
        let plot = PLOTS.iter().find(|plot| plot.name == name);
        let plot = (plot.ok_or_else(|| Error::nothing_to_plot(name, "there is no such plot"))?.of)(run)?;
        plot.chart().check().map_err(|reason| Error::nothing_to_plot(name, reason))?;
        Ok(plot)
    }

    fn chart(&self) -> Chart {
        match self {
            Plot::Roofline(plot) => Chart::Points(plot.chart()),
            Plot::Bars(plot) => Chart::Bars(vec![plot.chart()]),
            Plot::Curves(plot) => Chart::Points(plot.chart()),
            Plot::Quality(plot) => Chart::Points(plot.chart()),
            Plot::Charts(plots) => Chart::Bars(plots.iter().map(Bars::chart).collect()),
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
        let file = |name: &str| paths.iter().find(|path| path.ends_with(name)).unwrap();
        let svg = std::fs::read_to_string(file("roofline.svg")).unwrap();
        for text in ["Roofline, f32: ptx-sim", "TFLOP/s", "cuBLAS", "measured: 4.00 TB/s", "<circle"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        let png = image::open(file("roofline.png")).unwrap().to_rgb8();
        assert_eq!(png.dimensions(), Plot::SIZE);
        let colours = |wanted: [u8; 3]| png.pixels().filter(|pixel| pixel.0 == wanted).count();
        let dots = [colours([8, 69, 148]), colours([203, 24, 29])];
        // A dot of radius 4 where it was measured, and one in the legend.
        assert!(dots.iter().all(|&dot| dot >= 2 * 40), "{dots:?}");
        assert!(colours([255, 255, 255]) > png.pixels().len() / 2);
    }

    #[test]
    fn what_pages_show_is_among_all_plots() {
        // Each has a sentence of its own, and the table that it is from.
        for name in names() {
            let (table, what) = subject(name);
            assert!(crate::tables::TABLES.iter().any(|spec| spec.name == table) && what.len() > 40, "{name}");
        }
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
