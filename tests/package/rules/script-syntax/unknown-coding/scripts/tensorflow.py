# coding: utf-9
