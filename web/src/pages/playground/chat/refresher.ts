/** Coalesces refreshes: a request during a refresh causes one more afterwards, never two at once. */
export class Refresher {
  #refresh: () => Promise<void>;
  #running: Promise<void> | null = null;
  #isRequested = false;

  /** `refresh` can check `isStale` to drop outdated results. */
  constructor(refresh: () => Promise<void>) {
    this.#refresh = refresh;
  }

  get isBusy(): boolean {
    return this.#running !== null;
  }

  get isStale(): boolean {
    return this.#isRequested;
  }

  /** Resolves when no request is left. Rejects with the error of the last attempt. */
  request(): Promise<void> {
    this.#isRequested = true;
    this.#running ??= this.#runAll().finally(() => {
      this.#running = null;
      if (this.#isRequested) void this.request().catch(() => {}); // Requested after the loop ended.
    });
    return this.#running;
  }

  async #runAll(): Promise<void> {
    while (this.#isRequested) {
      this.#isRequested = false;
      try {
        await this.#refresh();
      } catch (error) {
        if (!this.#isRequested) throw error;
      }
    }
  }
}
