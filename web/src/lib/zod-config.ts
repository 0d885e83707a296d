/** Zod, which the AI SDK reads with, would try `new Function`: our policy refuses that. Imported before any other. */
import { config } from 'zod/v4/core';

config({ jitless: true });
