import type { ReactNode } from 'react';
/** Placeholder until helper "single" writes it. */
export function SingleBoard(): ReactNode {
  return null;
}
