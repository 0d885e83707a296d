/**
 * Work of which only the last result counts: asked for while it is done, it is done once more, and never twice at
 * once.
 */
export class Refresher {
  #work: () => Promise<void>;
  #doing: Promise<void> | null = null;
  #asked = false;

  /** `work` looks at `isStale` where it could keep a result that is already too old. */
  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  get isBusy(): boolean {
    return this.#doing !== null;
  }

  get isStale(): boolean {
    return this.#asked;
  }

  /** Done when no more is asked for. The last attempt's failure is the answer's. */
  ask(): Promise<void> {
    this.#asked = true;
    this.#doing ??= this.#all().finally(() => {
      this.#doing = null;
      if (this.#asked) void this.ask().catch(() => {}); // Asked for in the very last moment.
    });
    return this.#doing;
  }

  async #all(): Promise<void> {
    while (this.#asked) {
      this.#asked = false;
      try {
        await this.#work();
      } catch (error) {
        if (!this.#asked) throw error;
      }
    }
  }
}
