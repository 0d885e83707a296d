/** Coalesces refreshes: a request during a refresh causes one more afterwards, never two at once. */
export class Refresher {
  #work: () => Promise<void>;
  #doing: Promise<void> | null = null;
  #asked = false;

  /** `work` can check `isStale` to drop outdated results. */
  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  get isBusy(): boolean {
    return this.#doing !== null;
  }

  get isStale(): boolean {
    return this.#asked;
  }

  /** Resolves when no request is left. Rejects with the error of the last attempt. */
  request(): Promise<void> {
    this.#asked = true;
    this.#doing ??= this.#all().finally(() => {
      this.#doing = null;
      if (this.#asked) void this.request().catch(() => {}); // Requested after the loop ended.
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
