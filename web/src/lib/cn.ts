import { clsx, type ClassValue } from 'clsx';
import { twMerge } from 'tailwind-merge';

/**
 * Joins class names. Of Tailwind classes that conflict the last one stays, so that callers can override a component's
 * own.
 */
export const cn = (...names: ClassValue[]): string => twMerge(clsx(names));
