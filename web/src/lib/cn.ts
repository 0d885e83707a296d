import { clsx, type ClassValue } from 'clsx';
import { twMerge } from 'tailwind-merge';

/**
 * Joins class names; of conflicting Tailwind classes the last one wins, so that callers can override those of a
 * component.
 */
export const cn = (...names: ClassValue[]): string => twMerge(clsx(names));
