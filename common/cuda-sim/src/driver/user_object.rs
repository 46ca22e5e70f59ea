//! Objects of the program that graphs keep for as long as they need them.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use crate::abi::{Code, Handle, Outcome};
use crate::api::{exported, put};
use crate::graph::UserObject;
use crate::handles::new_handle;
use crate::state::state;
use crate::tell::locked;
use crate::work::Host;

/// Gives the program more references to an object.
fn retain(object: Handle, count: c_uint) -> Outcome {
    let mut objects = locked(&state()?.user_objects);
    let references = objects.get_mut(&object).ok_or(Code::INVALID_VALUE)?;
    let more = references.iter().take(1).cycle().take(count as usize).cloned().collect::<Vec<_>>();
    references.extend(more);
    Ok(())
}

/// Takes references to an object from the program.
fn give_up(object: Handle, count: c_uint) -> Outcome<Vec<Arc<UserObject>>> {
    let mut objects = locked(&state()?.user_objects);
    let references = objects.get_mut(&object).ok_or(Code::INVALID_VALUE)?;
    let kept = references.len().checked_sub(count as usize).ok_or(Code::INVALID_VALUE)?;
    let given = references.split_off(kept);
    if kept == 0 {
        objects.remove(&object);
    }
    Ok(given)
}

exported! {
    fn cuUserObjectCreate(
        object: *mut Handle,
        data: *mut c_void,
        destroy: unsafe extern "C" fn(*mut c_void),
        references: c_uint,
        _flags: c_uint,
    ) {
        if references == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let created = new_handle();
        // SAFETY: a place of the caller's.
        unsafe { put(object, created)? };
        let reference = Arc::new(UserObject { data: Host(data.cast()), destroy });
        locked(&state()?.user_objects).insert(created, vec![reference; references as usize]);
        Ok(())
    }

    fn cuUserObjectRetain(object: Handle, count: c_uint) {
        retain(object, count)
    }

    fn cuUserObjectRelease(object: Handle, count: c_uint) {
        give_up(object, count).map(|_| ())
    }

    fn cuGraphRetainUserObject(graph: Handle, object: Handle, count: c_uint, flags: c_uint) {
        const MOVE: c_uint = 1;
        let graph = state()?.graphs.get(graph)?;
        if flags & MOVE == 0 {
            retain(object, count)?;
        }
        let references = give_up(object, count)?;
        locked(&graph.objects).extend(references.into_iter().map(|reference| (object, reference)));
        Ok(())
    }

    fn cuGraphReleaseUserObject(graph: Handle, object: Handle, count: c_uint) {
        let graph = state()?.graphs.get(graph)?;
        let mut objects = locked(&graph.objects);
        let released: Vec<_> = objects.extract_if(.., |(known, _)| *known == object).collect();
        let kept = released.len().checked_sub(count as usize).ok_or(Code::INVALID_VALUE)?;
        objects.extend(released.into_iter().take(kept));
        Ok(())
    }
}
