//! The table of taps that implicit GEMM reads instead of dividing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use common::prelude::*;

use super::{Geometry, unsupported};

/// Key of a table: channels of a group, the image's size, window and dilation.
type Key = (i32, [i32; 2], [i32; 2], [i32; 2]);

/// The tables of all geometries so far: 8 bytes per tap, kept until the step is dropped.
///
/// An entry is the offset of the tap from the corner of its window, in the input, and two bits: one for its row in the window
/// and, 16 bits up, one for its column.
#[derive(Debug, Default)]
pub(super) struct TapTables(Mutex<HashMap<Key, Arc<Buffer<[i32; 2]>>>>);

/// Why a geometry has no table.
pub(super) const NO_BITS: &str = "its table has bits for windows of up to 16 × 15";

/// Whether the bits of an entry suffice for the window.
pub(super) fn has_bits(geometry: &Geometry) -> bool {
    geometry.window[0] <= 16 && geometry.window[1] <= 15
}

/// Taps that a kernel reads beyond the last: up to the end of a step of 32, or three steps of 16 ahead.
const AHEAD: usize = 48;

/// Number of entries of a table.
pub(super) fn len(geometry: &Geometry) -> usize {
    (geometry.taps.unsigned_abs() as usize).next_multiple_of(16) + AHEAD
}

impl TapTables {
    /// The table for this geometry.
    pub(super) fn get(
        &self,
        stream: &Stream,
        step: &'static str,
        geometry: &Geometry,
    ) -> Result<Arc<Buffer<[i32; 2]>>> {
        let Geometry { group_channels, height, width, window, dilation, .. } = *geometry;
        let key = (group_channels, [height, width], window, dilation);
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = tables.get(&key) {
            return Ok(table.clone());
        }
        let far = || unsupported(stream, step, "a tap lies more than 2³¹ values after the corner of its window");
        let mut entries = Vec::with_capacity(len(geometry));
        for c in 0..i64::from(group_channels) {
            for r in 0..window[0] {
                for s in 0..window[1] {
                    let row = c * i64::from(height) + i64::from(r) * i64::from(dilation[0]);
                    let column = i64::from(s) * i64::from(dilation[1]);
                    let offset = row.checked_mul(i64::from(width)).and_then(|row| row.checked_add(column));
                    let offset = offset.and_then(|offset| i32::try_from(offset).ok()).ok_or_else(far)?;
                    entries.push([offset, 1 << r | 1 << (16 + s)]);
                }
            }
        }
        // Taps that do not exist need a bit that no pixel has.
        entries.resize(len(geometry), [0, i32::MIN]);
        let table = Arc::new(stream.clone_htod(&entries)?);
        tables.insert(key, table.clone());
        Ok(table)
    }

    /// Bytes of all tables.
    pub(super) fn bytes(&self) -> usize {
        let tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tables.values().map(|table| table.num_bytes()).sum()
    }
}
