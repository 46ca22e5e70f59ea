//! A [`Trace`] as pictures: SVG files at most 900 units wide, without scripts, readable on light and dark pages.
//!
//! A picture follows the reader's system; inside a page of mdBook it follows the page's theme. The same trace gives the
//! same bytes.

mod banks;
mod fragment;
mod model;
mod pixels;
mod sectors;
mod svg;
mod tensor;
mod tensor_memory;
mod tile;
mod timeline;

use crate::trace::{AccessKind, MemoryAccess, Site, Space, Trace};

/// Choice among the traced instructions: the `nth` that matches the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// 1-based line of the CUDA source, or of the PTX where that has no line information.
    pub line: Option<u32>,
    /// Number of the warp in the block.
    pub warp: Option<u32>,
    /// Kind of access.
    pub kind: Option<AccessKind>,
    /// From 1 on.
    pub nth: usize,
}

impl Default for Pick {
    /// The first.
    fn default() -> Self {
        Self { line: None, warp: None, kind: None, nth: 1 }
    }
}

/// Reason why there is nothing to draw.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// The traced block executed no such instruction.
    #[error("{what}{}{}", others(.lines), truncated(*.missed))]
    Nothing {
        /// The requested thing.
        what: String,
        /// Lines that have it, and their numbers of instructions.
        lines: Vec<(u32, usize)>,
        /// Instructions that came after the trace's end.
        missed: u64,
    },
    /// There are fewer of them than requested.
    #[error("there are only {found} of these, and number {nth} is asked for{}", truncated(*.missed))]
    Nth {
        /// Their number.
        found: usize,
        /// The requested number, from 1 on.
        nth: usize,
        /// Instructions that came after the trace's end.
        missed: u64,
    },
}

fn others(lines: &[(u32, usize)]) -> String {
    if lines.is_empty() {
        return "; the traced warps have none at all".into();
    }
    let shown: Vec<String> = lines.iter().take(12).map(|(line, count)| format!("{line} ({count})")).collect();
    let more = if lines.len() > shown.len() { ", …" } else { "" };
    format!("; lines that have some, and how many: {}{more}", shown.join(", "))
}

fn truncated(missed: u64) -> String {
    match missed {
        0 => String::new(),
        _ => format!("; the trace ends {missed} warp instructions before the block does"),
    }
}

impl Trace {
    /// Draws an access to global memory: the bytes that each lane touches, and the 32-byte sectors that are moved for them.
    ///
    /// # Errors
    /// [`PictureError`] if no traced access fits `pick`.
    pub fn sectors(&self, pick: &Pick) -> Result<String, PictureError> {
        self.access(pick, Space::Global).map(|access| sectors::draw(self, access))
    }

    /// Draws an access to shared memory: the banks, out of 32, that each lane reads from, and the lanes that have to wait.
    ///
    /// # Errors
    /// [`PictureError`] if no traced access fits `pick`.
    pub fn banks(&self, pick: &Pick) -> Result<String, PictureError> {
        self.access(pick, Space::Shared).map(|access| banks::draw(self, access))
    }

    /// Draws how a matrix instruction (`mma`, `wmma`, `ldmatrix`, `stmatrix`, `wgmma`) spreads its matrices over lanes and registers.
    ///
    /// # Errors
    /// [`PictureError`] if no traced instruction fits `pick`, whose `kind` does not matter here.
    pub fn fragment(&self, pick: &Pick) -> Result<String, PictureError> {
        let steps = self.steps.iter().filter(|step| step.active != 0);
        let matrix = |site: u32| self.matrices.iter().find(|(known, _)| *known == site).map(|(_, matrix)| matrix);
        let all: Vec<_> = steps.filter_map(|step| Some((step.warp, step.site, matrix(step.site)?))).collect();
        let sites = all.iter().map(|(warp, site, _)| (*warp, &self.sites[*site as usize], None));
        let at = self.choose(pick, "matrix instruction", &sites.collect::<Vec<_>>())?;
        let (warp, site, matrix) = all[at];
        Ok(fragment::draw(self, &self.sites[site as usize], warp, matrix))
    }

    /// Draws the tile in shared memory of a bulk copy of a tensor's box: where its chunks of 16 bytes lie, swizzled or not.
    ///
    /// # Errors
    /// [`PictureError`] if no traced instruction fits `pick`, whose `kind` does not matter here.
    pub fn tile(&self, pick: &Pick) -> Result<String, PictureError> {
        let at = self.choose_step(pick, "bulk copy of a tensor", self.boxes.iter().map(|copy| copy.step))?;
        let copy = &self.boxes[at];
        Ok(tile::draw_box(self, self.site_of(copy.step), copy))
    }

    /// Draws the box of such a copy in its tensor, including any part outside; for im2col, the pixels that it gathers.
    ///
    /// # Errors
    /// Same as [`Self::tile`].
    pub fn tensor_box(&self, pick: &Pick) -> Result<String, PictureError> {
        let at = self.choose_step(pick, "bulk copy of a tensor's box", self.boxes.iter().map(|copy| copy.step))?;
        let copy = &self.boxes[at];
        let draw = if copy.tensor.pixels.is_empty() { tensor::draw } else { pixels::draw };
        Ok(draw(self, self.site_of(copy.step), copy))
    }

    /// Draws the positions in shared memory of A's or B's elements for a `wgmma.mma_async`, and how its descriptor leads
    /// there. For each warp's instruction A comes first, if it is in shared memory, and then B.
    ///
    /// # Errors
    /// Same as [`Self::tile`].
    pub fn operand(&self, pick: &Pick) -> Result<String, PictureError> {
        let steps = self.product_tiles.iter().map(|tile| tile.step);
        let at = self.choose_step(pick, "matrix of a wgmma in shared memory", steps)?;
        let tile = &self.product_tiles[at];
        Ok(tile::draw_product(self, self.site_of(tile.step), tile))
    }

    /// Draws the lanes and columns of tensor memory that a `tcgen05.ld`, `.st`, `.cp`, `.shift` or `.mma` uses.
    ///
    /// # Errors
    /// Same as [`Self::tile`].
    pub fn tensor_memory(&self, pick: &Pick) -> Result<String, PictureError> {
        let steps = self.tensor_steps.iter().map(|tensor| tensor.step);
        let at = self.choose_step(pick, "use of tensor memory", steps)?;
        let tensor = &self.tensor_steps[at];
        Ok(tensor_memory::draw(self, self.site_of(tensor.step), &self.steps[tensor.step], tensor))
    }

    fn site_of(&self, step: usize) -> &Site {
        &self.sites[self.steps[step].site as usize]
    }

    /// The index of the choice of `pick` among things of those steps.
    fn choose_step(&self, pick: &Pick, what: &str, steps: impl Iterator<Item = usize>) -> Result<usize, PictureError> {
        let all: Vec<_> = steps.map(|step| (self.steps[step].warp, self.site_of(step), None)).collect();
        self.choose(pick, what, &all)
    }

    /// Draws the block's warps side by side: the active lanes of each of the warp's instructions, its waits at a barrier or
    /// an mbarrier, and its copies and products under way. The trace should have all warps.
    ///
    /// # Errors
    /// [`PictureError`] if nothing was traced: the block or the warp does not exist.
    pub fn timeline(&self) -> Result<String, PictureError> {
        if self.steps.is_empty() {
            let what = "the trace is empty".into();
            return Err(PictureError::Nothing { what, lines: Vec::new(), missed: self.missed });
        }
        Ok(timeline::draw(self))
    }

    fn access(&self, pick: &Pick, space: Space) -> Result<&MemoryAccess, PictureError> {
        // The copy engine writes shared memory without lanes that could wait for one another.
        let has_lanes = |access: &MemoryAccess| space != Space::Shared || access.kind != AccessKind::Bulk;
        let fits = |access: &&MemoryAccess| access.space == space && has_lanes(access);
        let all: Vec<&MemoryAccess> = self.accesses.iter().filter(fits).collect();
        let sites: Vec<_> = all.iter().map(|access| (access.warp, self.site(access), Some(access.kind))).collect();
        let what = match pick.kind {
            Some(kind) => format!("{space} {kind}"),
            None => format!("{space} access"),
        };
        self.choose(pick, &what, &sites).map(|at| all[at])
    }

    /// The index of the choice of `pick` among `all`.
    fn choose(&self, pick: &Pick, what: &str, all: &[(u32, &Site, Option<AccessKind>)]) -> Result<usize, PictureError> {
        let fits = |(warp, _, kind): &(u32, &Site, Option<AccessKind>)| {
            pick.warp.is_none_or(|asked| asked == *warp)
                && (kind.is_none() || pick.kind.is_none_or(|asked| Some(asked) == *kind))
        };
        let here = |site: &Site| pick.line.is_none_or(|line| site.is_at(line));
        let found: Vec<usize> = (0..all.len()).filter(|at| fits(&all[*at]) && here(all[*at].1)).collect();
        if found.is_empty() {
            let at = pick.line.map_or(String::new(), |line| format!(" at line {line}"));
            let by = pick.warp.map_or(String::new(), |warp| format!(" by warp {warp}"));
            let mut lines: Vec<(u32, usize)> = Vec::new();
            for (_, site, _) in all.iter().filter(|one| fits(one)) {
                match lines.iter_mut().find(|(line, _)| *line == site.shown_line()) {
                    Some((_, count)) => *count += 1,
                    None => lines.push((site.shown_line(), 1)),
                }
            }
            lines.sort_unstable();
            let what = format!("there is no {what}{at}{by}");
            return Err(PictureError::Nothing { what, lines, missed: self.missed });
        }
        let wrong = PictureError::Nth { found: found.len(), nth: pick.nth, missed: self.missed };
        pick.nth.checked_sub(1).and_then(|at| found.get(at)).copied().ok_or(wrong)
    }

    /// "copies, block (0, 0, 0), trace.cu:5".
    fn heading(&self, site: &Site) -> String {
        format!("{}, {}, {}", self.kernel, self.block_name(), site.place())
    }

    fn block_name(&self) -> String {
        let [x, y, z] = self.block;
        format!("block ({x}, {y}, {z})")
    }
}

/// The line of CUDA, or the instruction if the line is not known.
fn code(site: &Site) -> &str {
    site.text.as_deref().filter(|text| !text.is_empty()).unwrap_or(&site.instruction)
}

/// Runs of the lanes of a mask: (first, last).
pub(crate) fn runs(mask: impl Into<u128>) -> Vec<(u32, u32)> {
    let mask = mask.into();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for lane in (0..u128::BITS).filter(|lane| mask >> lane & 1 == 1) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == lane => *last = lane,
            _ => runs.push((lane, lane)),
        }
    }
    runs
}

/// "lane 5", "lanes 0–15", "lanes 0, 4, 8–11, … (20 lanes)".
pub(crate) fn lanes_in_words(mask: u32) -> String {
    let runs = runs(mask);
    let shown: Vec<String> = runs
        .iter()
        .take(4)
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}–{last}") })
        .collect();
    let more = if runs.len() > 4 { format!(", … ({} lanes)", mask.count_ones()) } else { String::new() };
    let word = if mask.count_ones() == 1 { "lane" } else { "lanes" };
    format!("{word} {}{more}", shown.join(", "))
}

/// "1 sector", "4 sectors".
fn count(number: u32, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
