//! What the command shows, a file a part. A part makes tables, and says what in them is wrong.

use common::parts::Part;
use common::prelude::*;
use common::record::Record;

pub mod gemm;
pub mod occupancy;
pub mod ptx;
pub mod resources;
pub mod sass;

/// All parts, in the order in which they are read.
pub static PARTS: &[Part] = &[gemm::PART, ptx::PART, resources::PART, occupancy::PART, sass::PART];

/// The runs on a GPU that are kept in `records/`, for where there is none.
///
/// # Errors
/// [`Error::Record`] with the file that is no record.
pub fn records() -> Result<Vec<Record>> {
    common::records!("nvidia-h200-broken.json")
}
