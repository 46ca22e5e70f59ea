//! Measured and shown: what every report of the phases stands on. Below it is [`common`], with the devices and tensors.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`timing`] | measurements that keep the clock they were taken with |
//! | [`ladder`] | the runner of every ladder: poison, check, then time; step × shape × device |
//! | [`trial`] | checks at ragged shapes for whoever has just changed a kernel |
//! | [`gallery`] | broken kernels with their repaired versions: who finds which bug |
//! | [`peer`] | cuBLAS and cuDNN, where they are installed |
//! | [`resources`] | registers, shared memory and spills of kernels, by ptxas |
//! | [`sass`] | the machine code of kernels, by ptxas and nvdisasm |
//! | [`json`] | JSON with a table's rows on one line each, safe to print |
//! | [`table`] | results as text, Markdown, CSV and JSON |
//! | [`record`] | a run saved with device, date and commit, to compare with or to show where this machine has no number |
//! | [`repeats`] | runs that were repeated: medians and spread |
//! | [`compare`] | two runs side by side: change told from noise |
//! | [`parts`] | a phase's command that shows its ladders, part by part |
//! | [`command`] | shared by the phases' commands: options, output, saving |
//! | [`terminal`] | how wide standard output is, and whether it shows colours |

pub mod command;
pub mod compare;
pub mod gallery;
pub mod json;
pub mod ladder;
pub mod parts;
pub mod peer;
pub mod record;
pub mod repeats;
pub mod resources;
pub mod sass;
pub mod table;
pub mod terminal;
pub mod timing;
pub mod trial;
