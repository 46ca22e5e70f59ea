//! The gate before the compiler, for kernels that come from elsewhere: hand-ins, and texts edited in a page of the book.
//!
//! A compiler reads whatever file an `#include` names, and its messages show the lines. The rules know no comments and no literals,
//! so nothing is gained by pretending that one begins or ends: a `#` anywhere must begin a line with a directive that is allowed, and
//! `#include` must name a header that is allowed. Options in a kernel's head have a list of their own, which
//! [`KernelHead`](super::KernelHead) has.

use std::path::Path;

use super::edits::without_dots;

/// Maximum size of a text in bytes; the longest kernel of the course has a third of them.
pub const MAX_SOURCE: usize = 64 << 10;

/// Headers that an answer to an exercise may include.
const HEADERS: [&str; 4] = ["cuda_fp16.h", "cuda_bf16.h", "cuda_pipeline.h", "mma.h"];

/// The words by which a head gives the compiler options.
const OPTIONS: &str = "// nvrtc:";

/// A kernel from elsewhere, by what it stands for.
#[derive(Clone, Copy, Debug)]
pub enum Guest<'a> {
    /// An answer to an exercise: a few of CUDA's headers, and the exercise's own options.
    Answer,
    /// An edited kernel of the course: its headers are those of the workspace and CUDA's, and its head may have options.
    Edited {
        /// The file in the workspace.
        path: &'a Path,
        /// The workspace.
        root: &'a Path,
    },
}

impl Guest<'_> {
    /// Checks a name as it stands after `#include`; `Err` is the reason against it.
    fn include(self, written: &str) -> Result<(), String> {
        let angled = written.strip_prefix('<').and_then(|name| name.strip_suffix('>'));
        match self {
            Guest::Answer if angled.is_some_and(|name| HEADERS.contains(&name)) => Ok(()),
            Guest::Answer => {
                let headers = HEADERS.map(|name| format!("`<{name}>`")).join(", ");
                Err(format!("the headers that are: {headers}"))
            }
            Guest::Edited { path, root } => {
                let quoted = written.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
                let is_ours = |name| is_plain(name, true) && is_header_of(root, path, name);
                if angled.is_some_and(|name| is_plain(name, false)) || quoted.is_some_and(is_ours) {
                    return Ok(());
                }
                Err("the headers that are: those of the course in quotes, CUDA's in angle brackets".to_owned())
            }
        }
    }
}

/// Whether a header's name is a relative path without surprises, which begins with `../` only if it `may_climb`.
fn is_plain(name: &str, may_climb: bool) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.chars().all(plain);
    let below = if may_climb { name.trim_start_matches("../") } else { name };
    below.split('/').all(part)
}

/// Whether the kernel at `path` finds a header of that name in the workspace at `root`, links followed.
fn is_header_of(root: &Path, path: &Path, name: &str) -> bool {
    let header = without_dots(&path.with_file_name(name));
    let is_inside = |found: &Path| root.canonicalize().is_ok_and(|root| found.starts_with(root));
    header.extension().is_some_and(|extension| extension == "cuh")
        && header.canonicalize().is_ok_and(|found| found.is_file() && is_inside(&found))
}

/// Directives that read no file, `#include` and `#pragma` apart.
const DIRECTIVES: [&str; 10] =
    ["define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error", "warning"];

/// Text that may appear nowhere, not even in a comment, and why.
const REFUSED: [(&str, &str); 9] = [
    ("%:", "is another spelling of `#`"),
    ("??=", "is another spelling of `#`"),
    ("??/", "is another spelling of `\\`"),
    ("\\u", "is another spelling of a character"),
    ("\\U", "is another spelling of a character"),
    ("\\N", "is another spelling of a character"),
    ("__has_", "asks which files there are"),
    ("_Pragma", "is another spelling of `#pragma`"),
    ("__pragma", "is another spelling of `#pragma`"),
];

/// Reason why a text is not compiled, in a sentence; `None` if nothing speaks against it.
pub fn refusal(text: &str, guest: Guest<'_>) -> Option<String> {
    if text.len() > MAX_SOURCE {
        return Some(format!("The file is {} bytes long; at most {MAX_SOURCE} are allowed.", text.len()));
    }
    let text = text.replace("\r\n", "\n");
    if let Some(c) = text.chars().find(|&c| c.is_control() && c != '\n' && c != '\t') {
        return Some(format!("The file contains the control character {:#04x}, which is not allowed.", u32::from(c)));
    }
    if text.split('\n').any(|line| line.ends_with(char::is_whitespace) && line.trim_end().ends_with('\\')) {
        return Some("A line ends in `\\` and blanks, which compilers read differently; remove the blanks.".to_owned());
    }
    let text = text.replace("\\\n", "");
    if let Some((word, why)) = REFUSED.iter().find(|(word, _)| text.contains(word)) {
        return Some(format!("`{word}` is not allowed, not even in a comment: it {why}."));
    }
    if matches!(guest, Guest::Answer) && text.contains(OPTIONS) {
        return Some(format!("`{OPTIONS}` is not allowed: it sets the compiler's options, which are the exercise's."));
    }
    let mut only_includes = true;
    for line in text.split('\n') {
        let mut pieces = line.split('#');
        let before = pieces.next().unwrap_or_default();
        let Some(directive) = pieces.next() else { continue };
        // The course's macros paste names together.
        let may_paste =
            matches!(guest, Guest::Edited { .. }) && directive.trim_start_matches([' ', '\t']).starts_with("define");
        if before.contains(|c| c != ' ' && c != '\t') || pieces.next().is_some() && !may_paste {
            return Some("`#` may only begin a line, in comments and literals too.".to_owned());
        }
        let directive = directive.trim_matches([' ', '\t']);
        let end = directive.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(directive.len());
        let (word, rest) = directive.split_at(end);
        let rest = rest.trim_start_matches([' ', '\t']);
        match word {
            "include" if !only_includes => {
                // A macro could change what a header does, and what it includes.
                return Some("`#include` must come before all other directives.".to_owned());
            }
            "include" => {
                let header = rest.split("//").next().unwrap_or_default().trim_end_matches([' ', '\t']);
                if let Err(reason) = guest.include(header) {
                    return Some(format!("`#include {rest}` is not allowed; {reason}."));
                }
            }
            "pragma" if ["unroll", "nounroll"].iter().any(|pragma| rest.starts_with(pragma)) => only_includes = false,
            _ if DIRECTIVES.contains(&word) => only_includes = false,
            _ => return Some(format!("The directive `#{directive}` is not allowed, not even in a comment.")),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "extern \"C\" __global__ void f() {}\n";

    /// An edited kernel of the course, as the page's editor sends it.
    fn edited(text: &str) -> Option<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        refusal(text, Guest::Edited { path: &root.join("phase4-fusion/kernels/softmax_01.cu"), root })
    }

    #[test]
    fn what_exercises_need_is_allowed() {
        for before in [
            "",
            "#include <mma.h>\r\n#include <cuda_fp16.h> // half\n",
            "// include \"x\" is no directive\n/*\n#include <mma.h>\n*/\n",
            "/* a comment: 1'000 \" R\"( ' × — ∈ */\n",
            "# define TILE \\\n    32\n#if TILE == 32\n#endif\n",
            "#pragma unroll 4\n",
        ] {
            let text = format!("{before}{KERNEL}");
            assert_eq!((refusal(&text, Guest::Answer), edited(&text)), (None, None), "{before}");
        }
    }

    #[test]
    fn no_spelling_of_an_include_gets_through() {
        for before in [
            "#include \"/etc/passwd\"",
            "#include </etc/passwd>",
            "#include <mma.h> /*\n*/ \"x\"",
            "#include <mma.h/../../x>",
            "#inc\\\nlude \"/etc/passwd\"",
            "#inc\\\r\nlude \"/etc/passwd\"",
            "#inc\\ \t\nlude \"/etc/passwd\"",
            "#inc\\\u{a0}\nlude \"/etc/passwd\"",
            "%\\\u{2028}\n:include \"/etc/passwd\"",
            "#inc??/\nlude \"/etc/passwd\"",
            "#/* */include </etc/passwd>",
            "/*\n*/ #include </etc/passwd>",
            "/* */#include </etc/passwd>",
            "# include NAME",
            "#include __FILE__",
            "#define NAME \"x\"\n#include <mma.h>",
            "#include_next <mma.h>",
            "#import <mma.h>",
            "#embed </etc/passwd>",
            "#line 1 \"/etc/passwd\"",
            "# 1 \"/etc/passwd\" 1",
            "#pragma GCC dependency \"/etc/passwd\"",
            "#pragma \\\n once",
            "_Pragma(\"once\")",
            "%:include \"/etc/passwd\"",
            "%\\\n:include \"/etc/passwd\"",
            "??=include \"/etc/passwd\"",
            "const char *s = \"//\";\n#include \"x\"",
            "const char *s = R\"(\" /*)\";\n#include \"x\"\n/* */",
            "int i = 1'0; /* ' */\n#include \"x\"",
            "// nvrtc: --pre-include=/etc/passwd",
            "// nv\\\nrtc: --pre-include=/etc/passwd",
            "#if __has_include(\"/etc/passwd\")\n#endif",
            "#if __h\\\nas_embed(\"/etc/passwd\")\n#endif",
            "#if __\\u0068as_include(\"/etc/passwd\")\n#endif",
            "#if __\\N{LATIN SMALL LETTER H}as_include(\"/etc/passwd\")\n#endif",
            "const char s[] = {\n#embed \"/etc/passwd\" limit(9)\n};",
            "#include_next </etc/passwd>",
            "#include __has_embed(\"/etc/passwd\")",
            "#pragma clang module load x",
            "#pragma clang module import x",
            "#pragma include_alias(<mma.h>, \"/etc/passwd\")",
            "#pragma push_macro(\"x\")",
            "#elifdef X\n",
            "#assert x(y)",
            "\x0b#include \"x\"",
            "\x0c#include \"x\"",
            "#\x0binclude \"x\"",
            "int i;\r#include \"x\"",
            "\u{feff}#include \"x\"",
            "\u{2028}#include \"x\"",
            "int i;\u{85}#include \"x\"",
            "\u{a0}#include \"x\"",
            "\0#include \"x\"",
            "\x1b[2J",
        ] {
            let text = format!("{before}\n{KERNEL}");
            assert!(refusal(&text, Guest::Answer).is_some(), "{before}");
            assert!(edited(&text).is_some() || before.contains("--pre-include"), "{before}");
        }
    }

    #[test]
    fn a_large_text_is_refused() {
        assert!(refusal(&" ".repeat(MAX_SOURCE + 1), Guest::Answer).is_some());
    }

    /// Options are a matter of their own list, for a kernel of the course.
    #[test]
    fn an_edited_kernel_may_include_headers_of_the_course_and_of_cuda_alone() {
        for allowed in [
            "// nvrtc: --use_fast_math",
            "#include \"copies.cuh\" // loads",
            "#include \"../kernels/copies.cuh\"",
            "#include \"../../phase2-conv-bn/kernels/in_flight.cuh\"",
            "#include <cooperative_groups/reduce.h>",
            "#include <cuda/barrier>",
        ] {
            assert_eq!(edited(&format!("{allowed}\n{KERNEL}")), None, "{allowed}");
        }
        for refused in [
            "#include \"/etc/passwd\"",
            "#include \"none.cuh\"",
            "#include \"../Cargo.toml\"",
            "#include \"../../../main/Cargo.toml\"",
            "#include \"..\"",
            "#include \"./copies.cuh\"",
            "#include \"copies.cuh\" \"copies.cuh\"",
            "#include \"kernels/../copies.cuh\"",
            "#include <../kernels/copies.cuh>",
            "#include </proc/self/environ>",
            "#include <.ssh/id>",
            "#include <C:/x>",
            "#include <>",
        ] {
            assert!(edited(&format!("{refused}\n{KERNEL}")).is_some(), "{refused}");
        }
    }

    /// A link in the course's folder does not lead out of it.
    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_out_of_the_workspace_is_no_header_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("course");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(folder.path().join("secret"), "").unwrap();
        std::fs::write(root.join("own.cuh"), "").unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret"), root.join("link.cuh")).unwrap();
        let path = root.join("a.cu");
        let guest = Guest::Edited { path: &path, root: &root };
        assert_eq!(refusal("#include \"own.cuh\"", guest), None);
        assert!(refusal("#include \"link.cuh\"", guest).is_some());
    }

    /// No rule stands in the way of the course's own kernels.
    #[test]
    fn every_kernel_of_the_course_passes() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut passed = 0;
        for phase in std::fs::read_dir(root).unwrap() {
            let Ok(kernels) = std::fs::read_dir(phase.unwrap().path().join("kernels")) else { continue };
            for path in kernels.map(|entry| entry.unwrap().path()) {
                if path.extension().is_some_and(|extension| extension == "cu") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    assert_eq!(refusal(&text, Guest::Edited { path: &path, root }), None, "{}", path.display());
                    passed += 1;
                }
            }
        }
        assert!(passed > 200, "only {passed} kernels");
    }
}
