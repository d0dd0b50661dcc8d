// Another kernel without leaving: the kit's launcher boots it in the place of this one, and this page waits for it.

import { api, problem, type State } from "./api";
import { byId, h, say } from "./dom";

/** The one that boots. */
let next = "";

/** What to say while the workshop does not answer, if a kernel boots. */
export const boots = () =>
  next &&
  `Linux ${next} is booting. Your work is kept, and this page then goes on by itself. If it does not, look at the window ` +
    "in which you started the workshop.";

/** Shows which kernel runs, if the launcher can boot others. `isBack`: the workshop did not answer before. */
export function drawKernels({ kernel, kernels }: State, isBack: boolean): void {
  const select = byId<HTMLSelectElement>("kernel");
  if (isBack && next) {
    next = "";
    say(`Linux ${kernel} runs now`);
  }
  if (next) return;
  if (select.options.length !== kernels.length) {
    select.replaceChildren(...kernels.map((name) => h("option", { value: name }, `Linux ${name}`)));
  }
  select.hidden = kernels.length < 2;
  select.disabled = false;
  // Somebody with keys goes over the ones between.
  if (kernel && document.activeElement !== select) select.value = kernel;
}

/** Boots a kernel, after everything on the screen was saved. */
export async function boot(kernel: string, save: () => Promise<void>): Promise<void> {
  next = kernel;
  byId<HTMLSelectElement>("kernel").disabled = true;
  try {
    await save();
    await api.boot(next);
  } catch (thrown) {
    // The server may have ended before its answer arrived.
    if (problem(thrown).status === 0) return;
    next = "";
    throw thrown;
  }
}
