//! A small image, its four windows of 3×3, and the matrix that has them as columns.

use std::path::Path;

use crate::content::Picture;

use super::{
    DrawingError,
    canvas::{Area, Canvas, Look, Stroke, Style},
};

/// Sides of image, window and output.
const IMAGE: usize = 4;
const WINDOW: usize = 3;
const OUTPUT: usize = IMAGE - WINDOW + 1;
/// The output whose window is shown, and the value whose copies are shown.
const SHOWN: usize = 1;
const COPIED: usize = 6;

/// The value that tap `tap` of the window of output `output` reads: its number in the image.
fn value(output: usize, tap: usize) -> usize {
    let (y, x) = (output / OUTPUT + tap / WINDOW, output % OUTPUT + tap % WINDOW);
    y * IMAGE + x
}

pub(super) fn draw(_: &Path) -> Result<Picture, DrawingError> {
    let (taps, outputs) = (WINDOW * WINDOW, OUTPUT * OUTPUT);
    let mut canvas = Canvas::new("drawing-im2col");
    let image = Area::new(10.0, 34.0, 112.0, 112.0);
    let columns = Area::new(238.0, 34.0, 152.0, 207.0);
    let of_image = |value: usize| image.cells([IMAGE; 2], [value / IMAGE, value % IMAGE], [1, 1]);
    let of_columns = |tap, output| columns.cells([taps, outputs], [tap, output], [1, 1]);

    let window = image.cells([IMAGE; 2], [SHOWN / OUTPUT, SHOWN % OUTPUT], [WINDOW; 2]);
    canvas.area(window, Look::First);
    canvas.area(columns.cells([taps, outputs], [0, SHOWN], [taps, 1]), Look::First);
    canvas.area(of_image(COPIED), Look::Second);
    for output in 0..outputs {
        for tap in (0..taps).filter(|&tap| value(output, tap) == COPIED) {
            canvas.area(of_columns(tap, output), Look::Second);
        }
    }
    canvas.grid(image, [IMAGE; 2]);
    canvas.grid(columns, [taps, outputs]);
    let mut write = |cell: Area, value: usize| {
        let style = if value == COPIED { Style::MIDDLE.of("on-area") } else { Style::MIDDLE };
        canvas.text((cell.middle(), cell.centre() + 4.5), style, &value.to_string());
    };
    for value in 0..IMAGE * IMAGE {
        write(of_image(value), value);
    }
    for output in 0..outputs {
        for tap in 0..taps {
            write(of_columns(tap, output), value(output, tap));
        }
    }
    canvas.text((image.x, 22.0), Style::START.bold(), "one channel, 4 × 4");
    canvas.text((columns.right(), 22.0), Style::END.bold(), "columns [9, 4]");
    canvas.arrow(&[(image.right() + 4.0, window.centre()), (columns.x - 4.0, window.centre())], Stroke::First);
    canvas.text((180.0, window.centre() - 8.0), Style::MIDDLE.small(), "a window is");
    canvas.text((180.0, window.centre() + 18.0), Style::MIDDLE.small(), "a column");

    // The product, its factors as wide and as high as they are.
    let weight = Area::new(10.0, 276.0, 112.0, 40.0);
    let result = Area::new(238.0, 276.0, 152.0, 40.0);
    canvas.titled(weight, Look::Outline, &["weight [K, 9]"]);
    canvas.text((180.0, weight.centre() + 4.0), Style::MIDDLE, "× columns =");
    canvas.grid(result, [1, outputs]);
    canvas.area(result.cells([1, outputs], [0, SHOWN], [1, 1]), Look::First);
    canvas.text((result.right(), result.bottom() + 18.0), Style::END.bold(), "output [K, 4]");
    let copies = (0..outputs).flat_map(|output| (0..taps).map(move |tap| value(output, tap)));
    let copies = copies.filter(|&value| value == COPIED).count();
    canvas.text((10.0, 180.0), Style::START, &format!("Value {COPIED} lies under"));
    canvas.text((10.0, 197.0), Style::START, &format!("{copies} windows, so it is"));
    canvas.text((10.0, 214.0), Style::START, &format!("written {copies} times."));

    let alternative = format!(
        "An image of 4 × 4 numbered values. Each of its four windows of 3 × 3 is one column of a matrix with 9 rows. Value {COPIED} is in \
         {copies} of the columns. The weight, K × 9, times this matrix is the output, K × 4."
    );
    let caption =
        "im2col for a 3×3 window without padding: each window becomes a column, and the convolution a product.";
    Ok(canvas.finish(344.0, &alternative, caption))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_window_reads_its_own_values() {
        let of = |output| (0..9).map(|tap| super::value(output, tap)).collect::<Vec<_>>();
        assert_eq!(of(0), [0, 1, 2, 4, 5, 6, 8, 9, 10]);
        assert_eq!(of(3), [5, 6, 7, 9, 10, 11, 13, 14, 15]);
    }
}
