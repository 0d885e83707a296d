/** Keep Zod, which the AI SDK uses, from calling `new Function`, which the CSP forbids. Must be imported first. */
import { config } from 'zod/v4/core';

config({ jitless: true });
