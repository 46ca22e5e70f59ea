//! Tests of the pictures of tensor memory.

use ptx_sim::{Arg, Device, LaunchConfig, Module, Observe, Pick, PictureError, TraceRequest};
use roxmltree::Document;

use super::shows;
use crate::tensor_memory::PTX;

#[test]
fn the_cells_of_an_instruction_are_drawn_where_they_are() {
    let device = Device::new(Default::default());
    let kernel = device.load(&Module::from_ptx(PTX, "tcgen05.ptx").unwrap()).unwrap().kernel("mistaken").unwrap();
    let buffer = |label| device.alloc(128 * 64 * 4, label).unwrap();
    let buffers = ["a", "b", "out"].map(|label| {
        let pointer = buffer(label);
        device.write(pointer, &[0; 128 * 64 * 4]).unwrap();
        Arg::from(pointer)
    });
    // A[128, 16] · B[64, 16]ᵀ with sums in 64 columns, then the same with A in the 8 columns after them.
    let descriptor: u32 = 1 << 4 | 64 >> 3 << 17 | 128 >> 4 << 24;
    let args: Vec<Arg> = buffers.into_iter().chain([Arg::from(descriptor), Arg::from(0u32)]).collect();
    let config = LaunchConfig { block: [128, 1, 1], ..Default::default() };
    let observe = Observe { trace: Some(TraceRequest::default()), ..Default::default() };
    let trace = kernel.observe(&config, &args, &observe).unwrap().trace.unwrap();
    let of = |warp, nth| trace.tensor_memory(&Pick { warp: Some(warp), nth, ..Pick::default() });
    shows(&of(1, 1).unwrap(), "By warp 1. stored: lanes 32–63, column 64.");
    shows(&of(0, 9).unwrap(), "By warp 0. D: lanes 0–127, columns 0–63.");
    shows(&of(0, 10).unwrap(), "By warp 0. D: lanes 0–127, columns 0–63. A: lanes 0–127, columns 64–71.");
    shows(&of(3, 72).unwrap(), "By warp 3. loaded: lanes 96–127, column 63.");
    assert!(matches!(of(3, 73), Err(PictureError::Nth { found: 72, .. })));
    // 128 columns are allocated, of 6.0625 units each.
    let svg = of(0, 10).unwrap();
    let document = Document::parse(&svg).unwrap();
    let places: Vec<[f64; 2]> = document
        .descendants()
        .filter(|node| ["full", "good"].map(Some).contains(&node.attribute("class")) && node.first_child().is_some())
        .map(|node| ["x", "width"].map(|name| node.attribute(name).unwrap().parse().unwrap()))
        .collect();
    assert_eq!(places, [[96.0, 388.0], [484.0, 48.5]]);
}
