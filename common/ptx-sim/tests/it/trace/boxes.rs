//! Tests of the pictures of tensors in memory: tiles, boxes, pixels.

use ptx_sim::{AccessKind, Pick, PictureError, Space, TensorElement, TensorMapDescriptor, TensorWindow, TraceRequest};
use roxmltree::Document;

use super::{alone_with, pipeline, shows, titles};

#[test]
fn a_tile_is_drawn_as_its_swizzle_lays_it_out() {
    let trace = pipeline(false, TraceRequest::default());
    let at = |line, nth| Pick { line: Some(line), nth, ..Pick::default() };
    let svg = trace.tile(&at(71, 1)).unwrap();
    shows(&svg, "a box of 64 × 64 f16, rows of 128 bytes, to stages + 0; swizzle of 128 bytes. Read together");
    shows(&svg, "the first chunks of 8 rows: no two are in the same banks.");
    // Chunk c of row r stands in column c xor r % 8.
    let document = Document::parse(&svg).unwrap();
    let mut seen = 0;
    for node in document.descendants().filter(|node| node.has_tag_name("rect")) {
        let Some(title) = node.children().find(|child| child.has_tag_name("title")).and_then(|title| title.text())
        else {
            continue;
        };
        let numbers: Vec<usize> =
            title.split(|c: char| !c.is_ascii_digit()).filter_map(|text| text.parse().ok()).collect();
        let [row, chunk, ..] = numbers[..] else { panic!("{title}") };
        let x: f64 = node.attribute("x").unwrap().parse().unwrap();
        assert_eq!(((x - 84.0) / 98.5) as usize, chunk ^ (row % 8), "{title}");
        seen += 1;
    }
    assert_eq!(seen, 32 * 8);
    // The last tile has 8 columns of the tensor, and 50 rows.
    let last = trace.tile(&at(71, 4)).unwrap();
    assert_eq!(titles(&last).iter().filter(|title| title.contains("outside the tensor: zeros")).count(), 32 * 7);
    assert!(matches!(trace.tile(&at(71, 5)), Err(PictureError::Nth { found: 4, .. })));
    // Each end of the copies is among the accesses, but for what is outside; and they make no bank conflicts.
    let ends = |space| {
        let all = trace.accesses.iter().filter(move |access| access.kind == AccessKind::Bulk && access.space == space);
        all.map(|access| access.bytes()).collect::<Vec<_>>()
    };
    assert_eq!(ends(Space::Shared), [8192, 4096, 8192, 4096, 8192, 4096, 8192, 4096]);
    assert_eq!(ends(Space::Global), [6400, 4096, 6400, 4096, 6400, 4096, 800, 512]);
    assert!(trace.banks(&Pick { kind: Some(AccessKind::Bulk), ..Pick::default() }).is_err());
    shows(
        &trace.sectors(&Pick { kind: Some(AccessKind::Bulk), ..Pick::default() }).unwrap(),
        "bulk copy of 128 bytes each",
    );
}

#[test]
fn pixels_of_im2col_are_drawn_where_they_are() {
    // Two images of 4 × 3 pixels, their windows of 3 × 3 with a padding of 1: the tap at the upper left.
    let window = TensorWindow::Im2col { lower: vec![-1, -1], upper: vec![-1, -1], channels: 8, pixels: 15 };
    let body = "mbarrier.init.shared::cta.b64 [%r2], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 240;\n\
         cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes \
         [%r1], [%rd1, {0, 0, -1, 0}], [%r2], {0, 0};\n\
         W0: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0; @!%p1 bra W0;";
    let trace = alone_with(body, |from| {
        let tiled = TensorMapDescriptor::tiled(TensorElement::F16, from.offset(128), &[8, 4, 3, 2], &[8, 1, 1, 1]);
        TensorMapDescriptor { window, ..tiled }.encode().unwrap().bytes().to_vec()
    });
    let svg = trace.tensor_box(&Pick::default()).unwrap();
    shows(
        &svg,
        "15 pixels of 8 channels from 0 on, in from + 128, a tensor of 8 × 4 × 3 × 2 f16, fastest first; moved by (0, 0).",
    );
    shows(&svg, "9 of them are outside and arrive as zeros. 240 bytes to tile + 0.");
    // Four in a row of the bounding box, of which the first misses one.
    let all = titles(&svg);
    assert!(all.contains(&"row 0 of the box: x = 0, y = -1, outside the image".to_owned()), "{all:?}");
    assert!(all.contains(&"row 4 of the box: x = 0, y = 0, inside the image".to_owned()), "{all:?}");
    assert!(all.contains(&"row 14 of the box: x = 2, y = -1, outside the image".to_owned()), "{all:?}");
    shows(&trace.tile(&Pick::default()).unwrap(), "240 bytes of im2col");
}

#[test]
fn a_box_is_drawn_with_what_is_outside() {
    let trace = pipeline(false, TraceRequest::default());
    let at = |line, nth| Pick { line: Some(line), nth, ..Pick::default() };
    shows(
        &trace.tensor_box(&at(72, 1)).unwrap(),
        "Box of 64 × 32 f16 at (0, 0) in b, a tensor of 200 × 32, fastest first.",
    );
    shows(&trace.tensor_box(&at(72, 1)).unwrap(), "All of it is inside. 4096 bytes to stages + 8192.");
    let svg = trace.tensor_box(&at(71, 4)).unwrap();
    shows(&svg, "400 of 4096 elements are inside; the others arrive as zeros. 8192 bytes to stages + 12288.");
    let texts: Vec<String> =
        Document::parse(&svg).unwrap().descendants().filter_map(|node| node.text()).map(str::to_owned).collect();
    for coordinate in ["192", "200", "256", "50", "64"] {
        assert!(texts.iter().any(|text| text == coordinate), "{coordinate}");
    }
}
