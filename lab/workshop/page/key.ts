// How the server knows that a request comes from this page. The printed address has a key after its `#`, which no request
// contains. It stays in the storage of our origin, where all tabs find it. Requests have a proof instead: the checksum
// of the key and of the name of the server's run. Whoever takes the server's port may get it, and can't use it elsewhere.

import { keep } from "./dom";

let shown = "";

/** What shows the server that we know the key; nothing before the first `prove`. */
export const proof = () => shown;

/** Makes the proof for the server that runs now. */
export async function prove(): Promise<void> {
  const run = await (await fetch("/run")).text();
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`${run} ${keep.get("key")}`));
  shown = Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Moves the key from the address to the storage, also if somebody types the address into a tab of ours. */
function take(event?: Event): void {
  const [, key] = /^#token=(\w+)$/.exec(location.hash) ?? [];
  if (!key) return;
  event?.stopImmediatePropagation();
  keep.set("key", key);
  history.replaceState(null, "", "/");
}

take();
addEventListener("hashchange", take);
