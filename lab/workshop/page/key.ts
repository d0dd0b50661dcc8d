// How the server knows that a request comes from this page. The printed address has a key after its `#`, which no request
// contains. It stays in the storage of our origin, where all tabs find it. Requests have a proof instead: the checksum
// of the key and of the name of the server's run. Whoever takes the server's port may get it, and can't use it elsewhere.
// The server proves itself, too, before the page believes what it reports.

import { keep } from "./dom";

let shown = "";

/** What shows the server that we know the key; nothing before the first `prove`. */
export const proof = () => shown;

/** The checksum of some words and of the key. */
async function checksum(words: string): Promise<string> {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`${words} ${keep.get("key")}`));
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Makes the proof for the server that runs now. */
export async function prove(): Promise<void> {
  const run = await (await fetch("/run")).text();
  // With another name, somebody could let us make the server's proof.
  if (!/^[0-9a-f]{32}$/.test(run)) throw new Error("this is no run of the workshop");
  shown = await checksum(run);
}

/** What a server that knows the key answers to this. */
export const promise = (nonce: string) => checksum(`server ${nonce}`);

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
