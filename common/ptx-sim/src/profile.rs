//! A launch's use of the hardware: counters, for the kernel and for each line of its source.
//!
//! How they are counted is said in `exec::watch::profiler`; here they are named, added up and shown. A counter that Nsight Compute
//! has too carries its name there ([`Profile::metrics`]). Requests, sectors and wavefronts are properties of addresses and
//! are the hardware's; instructions are those of the PTX, of which the hardware runs a translation.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::ir::Class;
use crate::names::kernel_name;
use crate::report;

/// Declares [`Counters`]: documentation, name, and Nsight Compute's name, if any.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident $(= $metric:literal)?;)*) => {
        /// Sums over all instructions of a kernel or a line.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)*
        }

        impl Counters {
            /// Each counter: its name, Nsight Compute's name if there is one, and its value.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, Option<&'static str>, u64)> {
                vec![$((stringify!($name), None$(.or(Some($metric)))?, self.$name)),*]
            }
        }

        impl std::ops::AddAssign for Counters {
            fn add_assign(&mut self, more: Self) {
                $(self.$name += more.$name;)*
            }
        }
    };
}

counters! {
    /// Instructions that warps executed; one that a predicate switched off in all lanes counts too.
    warp_instructions = "smsp__inst_executed.sum";
    /// The same, each counted once per active lane.
    lane_instructions = "smsp__thread_inst_executed_pred_on.sum";
    /// The same for every lane that reached it, whether or not the instruction's predicate is true for it.
    issued_lanes = "smsp__thread_inst_executed.sum";
    /// Loads from global memory by a warp with at least one active lane, `cp.async` included.
    global_load_requests = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum";
    /// 32-byte sectors that they touched.
    global_load_sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum";
    /// Sectors that the same bytes would fill.
    global_load_sectors_ideal;
    /// Bytes that lanes asked for.
    global_load_bytes;
    /// Stores to global memory.
    global_store_requests = "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum";
    /// 32-byte sectors that they touched.
    global_store_sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum";
    /// Sectors that the same bytes would fill.
    global_store_sectors_ideal;
    /// Bytes that lanes wrote.
    global_store_bytes;
    /// Atomics on global memory whose old value is used.
    global_atomic_requests = "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum";
    /// 32-byte sectors that they touched.
    global_atomic_sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum";
    /// Atomics on global memory whose old value is never read.
    global_reduction_requests = "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum";
    /// 32-byte sectors that they touched.
    global_reduction_sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum";
    /// Atomics on shared memory.
    shared_atomic_requests = "smsp__inst_executed_op_shared_atom.sum";
    /// Atomics of any kind, by a warp with at least one active lane.
    atomics;
    /// Lanes of an atomic that found another lane of the warp at their address.
    atomic_collisions;
    /// `cp.async` from global to shared memory.
    async_copy_requests = "l1tex__t_requests_pipe_lsu_mem_global_op_ldgsts_cache_access.sum";
    /// 32-byte sectors of global memory that they touched.
    async_copy_sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum";
    /// Sectors that the same bytes would fill.
    async_copy_sectors_ideal;
    /// Bytes that lanes copied.
    async_copy_bytes;
    /// Passes through shared memory that their writes take.
    async_copy_wavefronts;
    /// Waits of a warp for `cp.async` copies that left none of its copies under way, though some were.
    async_copy_drains;
    /// Bulk copies to shared memory that threads asked for (`cp.async.bulk`, also of tensors).
    bulk_load_requests;
    /// Bytes that they read from global memory, excluding those outside a tensor.
    bulk_load_bytes;
    /// 32-byte sectors of global memory that they touch.
    bulk_load_sectors;
    /// Copies that go to several blocks of a cluster (`.multicast::cluster`).
    bulk_multicast_requests;
    /// Bytes from global memory that reach shared memory: a multicast copy's count once for each block that gets them.
    bulk_received_bytes = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum";
    /// Bulk copies from shared to global memory.
    bulk_store_requests;
    /// Bytes that they take there.
    bulk_store_bytes = "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum";
    /// 32-byte sectors of global memory that they touch.
    bulk_store_sectors;
    /// Bulk reductions of global memory (`cp.reduce.async.bulk`).
    bulk_reduction_requests;
    /// Bytes that they take there.
    bulk_reduction_bytes = "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_red.sum";
    /// 32-byte sectors of global memory that they touch.
    bulk_reduction_sectors;
    /// Loads from shared memory of the cluster: `ld.shared::cluster`, or by a generic address in another block.
    cluster_load_requests = "l1tex__t_requests_pipe_lsu_mem_dshared_op_ld.sum";
    /// Stores there.
    cluster_store_requests = "l1tex__t_requests_pipe_lsu_mem_dshared_op_st.sum";
    /// Atomics there.
    cluster_atomic_requests = "l1tex__t_requests_pipe_lsu_mem_dshared_op_atom.sum";
    /// Bytes of bulk copies within the shared memory of a cluster, `st.async` and `red.async` included.
    bulk_shared_bytes;
    /// Arrivals of a warp at mbarriers.
    mbarrier_arrivals;
    /// Queries of a warp whether the phase of an mbarrier is over (`try_wait`, `test_wait`).
    mbarrier_waits;
    /// Loads from shared memory, `ldmatrix` included.
    shared_load_requests = "smsp__inst_executed_op_shared_ld.sum";
    /// Passes that they take: one each without bank conflicts and with 4 bytes per lane.
    shared_load_wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum";
    /// Extra passes caused by different words in the same bank.
    shared_load_conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum";
    /// Stores to shared memory, `stmatrix` included.
    shared_store_requests = "smsp__inst_executed_op_shared_st.sum";
    /// Passes that they take.
    shared_store_wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum";
    /// Extra passes caused by bank conflicts.
    shared_store_conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum";
    /// `ldmatrix`.
    matrix_load_requests = "smsp__inst_executed_op_ldsm.sum";
    /// `stmatrix`.
    matrix_store_requests;
    /// `wgmma.mma_async`, counted once for each of the four warps.
    warpgroup_products = "sm__inst_executed_pipe_tensor_op_gmma.sum";
    /// Bytes of their tiles in shared memory, counted once per warpgroup.
    warpgroup_tile_bytes;
    /// Loads from local memory: a thread's own arrays.
    local_load_requests = "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum";
    /// 32-byte sectors that they touched.
    local_load_sectors = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum";
    /// Stores to local memory.
    local_store_requests = "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum";
    /// 32-byte sectors that they touched.
    local_store_sectors = "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum";
    /// Loads from `__constant__` variables.
    constant_load_requests;
    /// Conditional branches, including jump tables; an unconditional branch does not count.
    branches = "smsp__sass_branch_targets.sum";
    /// Branches at which lanes of a warp diverged.
    divergent_branches = "smsp__sass_branch_targets_threads_divergent.sum";
    /// Arrivals of a warp at a barrier of its block.
    barriers;
}

/// Instructions of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issued {
    /// Instructions executed by warps.
    pub warp: u64,
    /// The same, each counted once per active lane.
    pub lane: u64,
}

/// Counts of the instructions of one source line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineProfile {
    /// The CUDA source as named in the PTX; the PTX file itself if the PTX has no line information.
    pub file: String,
    /// 1-based line.
    pub line: u32,
    /// The counters.
    pub counters: Counters,
    /// Instructions by class, in the order of [`Class::ALL`].
    pub classes: [Issued; Class::ALL.len()],
    /// Floating-point operations: additions and multiplications count 1, fused multiply-adds 2, others nothing.
    pub flops: u64,
}

impl LineProfile {
    pub(crate) fn add(&mut self, counters: Counters, class: Class, issued: Issued, flops: u64) {
        self.counters += counters;
        let of_class = &mut self.classes[class as usize];
        of_class.warp += issued.warp;
        of_class.lane += issued.lane;
        self.flops += flops;
    }

    /// Sort key of the lines: cycles of the units that issue instructions (one per warp instruction), look up sectors and
    /// read or write shared memory. Not a time.
    #[must_use]
    pub fn cost(&self) -> u64 {
        let counters = &self.counters;
        counters.warp_instructions
            + counters.global_load_sectors
            + counters.global_store_sectors
            + counters.global_atomic_sectors
            + counters.global_reduction_sectors
            + counters.bulk_load_sectors
            + counters.bulk_store_sectors
            + counters.bulk_reduction_sectors
            + counters.shared_load_wavefronts
            + counters.shared_store_wavefronts
            + counters.async_copy_wavefronts
    }
}

impl Counters {
    /// Mean number of lanes that a warp runs together, 1 to 32: fewer than its threads where it diverged.
    #[must_use]
    pub fn active_lanes(&self) -> f64 {
        ratio(self.issued_lanes, self.warp_instructions)
    }

    /// Requests to global memory (loads, stores, `cp.async`), the sectors they touched, and the sectors that the same bytes
    /// would touch if dense.
    #[must_use]
    pub fn global(&self) -> [u64; 3] {
        [
            self.global_load_requests + self.global_store_requests,
            self.global_load_sectors + self.global_store_sectors,
            self.global_load_sectors_ideal + self.global_store_sectors_ideal,
        ]
    }

    /// Mean ways of bank conflicts at shared memory: passes per necessary pass; 1 is none, `None` no access.
    #[must_use]
    pub fn conflict_ways(&self) -> Option<f64> {
        let passes = self.shared_load_wavefronts + self.shared_store_wavefronts;
        let conflicts = self.shared_load_conflicts + self.shared_store_conflicts;
        (passes != 0).then(|| ratio(passes, passes - conflicts))
    }

    fn json(&self) -> Map<String, Value> {
        let named = self.named().into_iter().map(|(name, _, value)| (name.to_owned(), json!(value)));
        named.chain([("active_lanes".to_owned(), json!(self.active_lanes()))]).collect()
    }
}

/// Counts of a kernel's launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The kernel's name in the PTX.
    pub kernel: String,
    /// Name of the PTX file.
    pub ptx: String,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block, static and dynamic.
    pub shared_bytes: u32,
    /// Sums over all lines.
    pub counters: Counters,
    /// Instructions by class, in the order of [`Class::ALL`].
    pub classes: [Issued; Class::ALL.len()],
    /// Floating-point operations (see [`LineProfile::flops`]).
    pub flops: u64,
    /// Instructions of the warp that executed most: a block is no sooner done than its longest warp.
    pub longest_warp: u64,
    /// Bytes of the distinct sectors of global memory that were read: the DRAM reads of an infinite cache. Blocks that the
    /// kernel allocates itself do not count.
    pub unique_load_bytes: u64,
    /// Bytes of the distinct sectors that were written.
    pub unique_store_bytes: u64,
    /// Opcodes as the PTX has them, in their order, and how often warps executed each.
    pub opcodes: Vec<(String, u64)>,
    /// In order of files and lines.
    pub lines: Vec<LineProfile>,
}

impl Profile {
    /// Floating-point operations for each byte that has to be moved from or to DRAM at least once. `None`: no such byte.
    #[must_use]
    pub fn flops_per_unique_byte(&self) -> Option<f64> {
        let bytes = self.unique_load_bytes + self.unique_store_bytes;
        (bytes != 0).then(|| ratio(self.flops, bytes))
    }

    /// Floating-point operations per byte that lanes requested from global memory; `None` if they requested none.
    #[must_use]
    pub fn flops_per_requested_byte(&self) -> Option<f64> {
        let Counters {
            global_load_bytes,
            global_store_bytes,
            async_copy_bytes,
            bulk_load_bytes,
            bulk_store_bytes,
            bulk_reduction_bytes,
            ..
        } = self.counters;
        let loads = global_load_bytes + async_copy_bytes + bulk_load_bytes;
        let bytes = loads + global_store_bytes + bulk_store_bytes + bulk_reduction_bytes;
        (bytes != 0).then(|| ratio(self.flops, bytes))
    }

    /// Nsight Compute's names of the simulator's counters, with the values.
    pub fn metrics(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counters.named().into_iter().filter_map(|(_, metric, value)| Some((metric?, value)))
    }

    /// Lines, the most expensive first ([`LineProfile::cost`]).
    #[must_use]
    pub fn by_cost(&self) -> Vec<&LineProfile> {
        let mut lines: Vec<&LineProfile> = self.lines.iter().collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.cost()));
        lines
    }

    /// Writes one object: the counters by name, `classes`, `flops`, `longest_warp`, `unique_load_bytes`, `unique_store_bytes`,
    /// both arithmetic intensities (`null` where nothing was accessed), `metrics`, the members of `more`, and `lines`, one after
    /// the other: all of a large kernel's at once would take gigabytes.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write_json(&self, out: &mut impl Write, more: Map<String, Value>) -> io::Result<()> {
        let mut object = self.counters.json();
        let metrics: Map<String, Value> = self.metrics().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        object.insert("classes".into(), classes_json(&self.classes));
        object.insert("flops".into(), json!(self.flops));
        object.insert("longest_warp".into(), json!(self.longest_warp));
        object.insert("unique_load_bytes".into(), json!(self.unique_load_bytes));
        object.insert("unique_store_bytes".into(), json!(self.unique_store_bytes));
        object.insert("flops_per_unique_byte".into(), json!(self.flops_per_unique_byte()));
        object.insert("flops_per_requested_byte".into(), json!(self.flops_per_requested_byte()));
        object.insert("metrics".into(), Value::Object(metrics));
        object.extend(more);
        let object = Value::Object(object).to_string();
        write!(out, "{},\"lines\":[", object.strip_suffix('}').unwrap_or(&object))?;
        for (at, line) in self.lines.iter().enumerate() {
            let mut object = line.counters.json();
            object.insert("file".into(), json!(line.file));
            object.insert("line".into(), json!(line.line));
            object.insert("classes".into(), classes_json(&line.classes));
            object.insert("flops".into(), json!(line.flops));
            write!(out, "{}{}", if at == 0 { "" } else { "," }, Value::Object(object))?;
        }
        write!(out, "]}}")
    }

    /// The profile as text: the kernel's counters that are not 0, then its `top` most expensive lines. Source lines are
    /// read from the file that the PTX names if that is in the PTX file's folder, or from a file of that name there.
    #[must_use]
    pub fn render(&self, top: usize) -> String {
        self.render_from(&[], top)
    }

    /// [`Self::render`], which also reads source files in the folders `roots` and below them.
    #[must_use]
    pub fn render_from(&self, roots: &[PathBuf], top: usize) -> String {
        let mut text = format!("profile of `{}`\n", kernel_name(&self.kernel));
        self.render_kernel(&mut text);
        self.render_lines(&mut text, roots, top);
        text
    }

    fn render_kernel(&self, text: &mut String) {
        let mut rows: Vec<[String; 3]> = Vec::new();
        for (name, metric, value) in self.counters.named() {
            if value != 0 {
                rows.push([name.to_owned(), value.to_string(), metric.unwrap_or_default().to_owned()]);
            }
            if name == "issued_lanes" {
                rows.push(["active_lanes".into(), format!("{:.2}", self.counters.active_lanes()), String::new()]);
                for (class, issued) in Class::ALL.into_iter().zip(self.classes).filter(|(_, issued)| issued.warp != 0) {
                    rows.push([format!("  {}", class.name()), issued.warp.to_string(), String::new()]);
                }
            }
        }
        let mut row =
            |name: &str, value: Option<String>| rows.extend(value.map(|value| [name.to_owned(), value, String::new()]));
        row("unique_load_bytes", Some(self.unique_load_bytes.to_string()));
        row("unique_store_bytes", Some(self.unique_store_bytes.to_string()));
        row("flops", Some(self.flops.to_string()));
        row("flops_per_unique_byte", self.flops_per_unique_byte().map(|value| format!("{value:.2}")));
        row("flops_per_requested_byte", self.flops_per_requested_byte().map(|value| format!("{value:.2}")));
        rows.insert(0, ["counter".into(), "value".into(), "Nsight Compute".into()]);
        let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let (names, values) = (width(0), width(1));
        for [name, value, metric] in &rows {
            push_line(text, &format!("  {name:names$}  {value:>values$}  {metric}"));
        }
    }

    fn render_lines(&self, text: &mut String, roots: &[PathBuf], top: usize) {
        let mut sources: HashMap<&str, Option<String>> = HashMap::new();
        let lines = self.by_cost();
        let shown = &lines[..top.min(lines.len())];
        let _ = writeln!(text, "\nlines by cost, {} of {}", shown.len(), lines.len());
        push_line(text, "   line  instructions  lanes  sectors/request (ideal)  bank ways  divergent  source");
        for line in shown {
            let counters = &line.counters;
            let [requests, sectors, ideal] = counters.global();
            let sectors = match requests {
                0 => "-".to_owned(),
                _ => format!("{:.1} ({:.1})", ratio(sectors, requests), ratio(ideal, requests)),
            };
            let ways = counters.conflict_ways().map_or("-".to_owned(), |ways| format!("{ways:.1}"));
            let divergent = match counters.branches {
                0 => "-".to_owned(),
                _ => format!("{}/{}", counters.divergent_branches, counters.branches),
            };
            let share = 100.0 * ratio(counters.warp_instructions, self.counters.warp_instructions);
            let source = sources.entry(&line.file).or_insert_with(|| report::source_near(&line.file, &self.ptx, roots));
            let written = source.as_deref().and_then(|source| source.lines().nth((line.line as usize).checked_sub(1)?));
            let written = match written {
                Some(written) => written.trim().to_owned(),
                None => Path::new(&line.file).file_name().unwrap_or_default().to_string_lossy().into_owned(),
            };
            push_line(
                text,
                &format!(
                    "  {:>5}  {:>6} {share:>4.1}%  {:>5.1}  {sectors:>23}  {ways:>9}  {divergent:>9}  {written}",
                    line.line,
                    counters.warp_instructions,
                    counters.active_lanes()
                ),
            );
        }
    }
}

fn classes_json(classes: &[Issued; Class::ALL.len()]) -> Value {
    let classes = Class::ALL.into_iter().zip(classes);
    let object: Map<String, Value> = classes
        .map(|(class, issued)| (class.name().to_owned(), json!({ "warp": issued.warp, "lane": issued.lane })))
        .collect();
    Value::Object(object)
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

/// `a / b`; 0 / 0 is 0.
fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}
